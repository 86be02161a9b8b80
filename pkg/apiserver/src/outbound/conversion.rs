//! Calls to the conversion webhooks of custom resources.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use copepod_registry::ConversionCaller;
use futures::future::BoxFuture;
use serde_json::Value;

use super::{Endpoint, Outbound};

/// The longest a conversion may take, as upstream's.
const PATIENCE: Duration = Duration::from_secs(30);

/// The registry's way to conversion webhooks. The registry is made before the caller, so the caller comes later.
#[derive(Debug, Default)]
pub(crate) struct Conversions(pub OnceLock<Arc<Outbound>>);

impl ConversionCaller for Conversions {
    fn call<'a>(&'a self, config: &'a Value, review: Value) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move {
            let outbound = self.0.get().ok_or("the server is starting")?;
            let endpoint = Endpoint::of_webhook(config)?;
            outbound.post(&endpoint, PATIENCE, review.to_string()).await
        })
    }
}
