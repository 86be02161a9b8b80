//! What an object needs that lies outside of it: addresses and ports. A write begins a transaction, and ends it by
//! its outcome.

use copepod_api::ApiResult;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::request::RequestContext;

pub(crate) mod service;

/// Allocates for one resource.
pub(crate) trait Allocation: Send + Sync {
    /// Fills in what the new object needs; nothing is kept in a dry run.
    fn begin<'a>(
        &'a self,
        cx: &'a RequestContext,
        old: Option<&'a Value>,
        new: &'a mut Value,
    ) -> BoxFuture<'a, ApiResult<Box<dyn Transaction>>>;

    /// Gives back what a deleted object had.
    fn release<'a>(&'a self, object: &'a Value) -> BoxFuture<'a, ()>;
}

/// What a write has allocated.
pub(crate) trait Transaction: Send + Sync {
    /// The write is stored: what it no longer needs is given back.
    fn commit(self: Box<Self>) -> BoxFuture<'static, ()>;

    /// The write failed: what it took is given back.
    fn rollback(self: Box<Self>) -> BoxFuture<'static, ()>;
}
