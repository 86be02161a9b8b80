//! The store of one row: the verbs of the API over the watch cache.
//!
//! Reads are in [`read`](self::read), the write pipeline in [`pipeline`](self::pipeline): every write of every verb
//! goes through its `create_value` or `change`.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use copepod_api::{ApiError, ApiResult, GroupResource, ResourceDef};
use copepod_store::{Backend, Cache, Cas, Entry, KeyValue, Revision};
use serde_json::Value;

use crate::{
    convert::ConversionCaller, error::from_store, registry::Registry, request::RequestContext, row::Row,
    subresource::TokenIssuer,
};

mod delete;
mod patch;
mod pipeline;
mod read;
mod selection;
mod update;
mod watch;

pub(crate) use pipeline::{Change, Part};
pub use watch::WatchStream;

/// What all stores share.
pub(crate) struct Core {
    pub(crate) cache: Arc<Cache>,
    pub(crate) registry: Weak<Registry>,
    pub(crate) tokens: Option<Arc<dyn TokenIssuer>>,
    pub(crate) conversions: Option<Arc<dyn ConversionCaller>>,
}

impl Core {
    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        self.cache.backend()
    }

    /// The store of another built-in resource.
    pub(crate) fn sibling(&self, group: &str, version: &str, resource: &str) -> ApiResult<Store> {
        let registry = self.registry.upgrade().ok_or_else(|| ApiError::internal("the registry is gone"))?;
        let gvr = copepod_api::GroupVersionResource::new(group, version, resource);
        registry.store(&gvr).ok_or_else(|| ApiError::internal(format!("no store of {resource}")))
    }
}

/// The store of one row. Cloning is cheap.
#[derive(Clone)]
pub struct Store {
    pub(crate) row: Arc<Row>,
    pub(crate) core: Arc<Core>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("row", &self.row).finish_non_exhaustive()
    }
}

/// The outcome of a conditional write.
pub(crate) enum Commit {
    /// Written (or, in a dry run, not).
    Done(Arc<Entry>),
    /// Somebody was faster; the entry as it is now.
    Lost(Option<Arc<Entry>>),
}

impl Store {
    /// The row.
    #[must_use]
    pub fn def(&self) -> &Arc<ResourceDef> {
        &self.row.def
    }

    /// The schema of the served version.
    #[must_use]
    pub fn schema(&self) -> &crate::row::Schema {
        &self.row.schema
    }

    pub(crate) fn resource(&self) -> GroupResource {
        self.row.def.group_resource()
    }

    pub(crate) fn not_found(&self, name: &str) -> ApiError {
        ApiError::not_found(&self.resource(), name)
    }

    pub(crate) fn key(&self, namespace: Option<&str>, name: &str) -> String {
        self.row.def.key(namespace, name)
    }

    /// The current entry, after all of this server's own writes.
    pub(crate) async fn current(&self, namespace: Option<&str>, name: &str) -> ApiResult<Option<Arc<Entry>>> {
        let entry = self.core.cache.get_fresh(&self.key(namespace, name)).await;
        entry.map_err(|error| from_store(&error))
    }

    /// Runs a write to its end although the client may go away in the middle: what it has allocated must be settled.
    pub(crate) async fn whole<T: Send + 'static>(
        work: impl Future<Output = ApiResult<T>> + Send + 'static,
    ) -> ApiResult<T> {
        let done = copepod_supervisor::spawn("write", work).join().await;
        done.unwrap_or_else(|| Err(ApiError::internal("the write was interrupted")))
    }

    /// Stored entries in the version that this row works in. Only a conversion webhook makes others of them.
    pub(crate) async fn converted(&self, entries: Vec<Arc<Entry>>) -> ApiResult<Vec<Arc<Entry>>> {
        match &self.row.webhook {
            Some(webhook) => webhook.entries(entries, &self.row.working.api_version(), false).await,
            None => Ok(entries),
        }
    }

    /// One stored entry in the version that this row works in.
    pub(crate) async fn converted_one(&self, entry: &Arc<Entry>) -> ApiResult<Arc<Entry>> {
        let list = self.converted(vec![Arc::clone(entry)]).await?;
        Ok(list.into_iter().next().unwrap_or_else(|| Arc::clone(entry)))
    }

    /// A stored object in the working version.
    pub(crate) async fn load(&self, entry: &Arc<Entry>) -> ApiResult<Value> {
        self.row.load(&*self.converted_one(entry).await?)
    }

    /// The bytes to store of an object in the working version.
    pub(crate) async fn encode(&self, object: &Value) -> ApiResult<Bytes> {
        let row = &self.row;
        let Some(webhook) = row.webhook.as_ref().filter(|_| row.working.api_version() != row.stored_version)
        else {
            return Ok(row.store(object).into());
        };
        let stored = webhook.one(object.clone(), &row.stored_version).await?;
        Ok(webhook.encode(stored, &row.stored_version).into())
    }

    /// Writes an object in the working version when the key's revision is `expected`.
    pub(crate) async fn commit(
        &self,
        cx: &RequestContext,
        key: &str,
        object: &Value,
        expected: Revision,
    ) -> ApiResult<Commit> {
        let bytes = self.encode(object).await?;
        self.commit_bytes(cx, key, bytes, expected).await
    }

    /// The same with the bytes to store.
    pub(crate) async fn commit_bytes(
        &self,
        cx: &RequestContext,
        key: &str,
        bytes: Bytes,
        expected: Revision,
    ) -> ApiResult<Commit> {
        if cx.dry_run {
            let now = self.core.cache.get_fresh(key).await.map_err(|error| from_store(&error))?;
            if now.as_ref().map_or(0, |entry| entry.revision()) != expected {
                return Ok(Commit::Lost(now));
            }
            return Ok(Commit::Done(entry(key, bytes, expected)));
        }
        let ttl: Option<Duration> = self.row.ttl;
        let done = self.core.backend().put(key, bytes.clone(), expected, ttl).await;
        Ok(match done.map_err(|error| from_store(&error))? {
            Cas::Done(revision) => {
                self.core.cache.note_written(revision);
                Commit::Done(entry(key, bytes, revision))
            }
            Cas::Conflict(current) => Commit::Lost(current.map(|kv| Arc::new(Entry::new(kv)))),
        })
    }

    /// Deletes a key when its revision is `expected`; the revision of the deletion, or `Err` with the current entry.
    pub(crate) async fn remove(
        &self,
        cx: &RequestContext,
        key: &str,
        expected: Revision,
    ) -> ApiResult<Result<Revision, Option<Arc<Entry>>>> {
        if cx.dry_run {
            return Ok(Ok(expected));
        }
        let done = self.core.backend().delete(key, expected).await;
        Ok(match done.map_err(|error| from_store(&error))? {
            Cas::Done(revision) => {
                self.core.cache.note_written(revision);
                Ok(revision)
            }
            Cas::Conflict(current) => Err(current.map(|kv| Arc::new(Entry::new(kv)))),
        })
    }
}

fn entry(key: &str, value: Bytes, revision: Revision) -> Arc<Entry> {
    Arc::new(Entry::new(KeyValue { key: key.into(), value, revision }))
}
