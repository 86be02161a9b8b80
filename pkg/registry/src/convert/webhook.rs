//! Conversion of custom resources by their definition's webhook (ConversionReview).
//!
//! Objects are asked for in batches. What was converted is kept for a while, because a watch, a list and a get of one
//! object would otherwise each ask again.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use copepod_api::{ApiError, ApiResult, meta};
use copepod_schema::SchemaSet;
use copepod_store::{Entry, KeyValue};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{codec, error::unreasoned};

mod kept;
mod response;

use kept::Kept;

/// Calls conversion webhooks; the API server's.
pub trait ConversionCaller: Send + Sync {
    /// Posts a ConversionReview to the server that `config` (a `clientConfig`) names. The error is a text.
    fn call<'a>(&'a self, config: &'a Value, review: Value) -> BoxFuture<'a, Result<Value, String>>;
}

/// The webhook of one definition. All rows of the definition share it.
pub(crate) struct ConversionWebhook {
    caller: Option<Arc<dyn ConversionCaller>>,
    config: Value,
    /// The review version to speak; empty when there is none in common.
    version: &'static str,
    /// Schemas by `apiVersion`, also of versions that are no longer served.
    schemas: BTreeMap<String, Arc<SchemaSet>>,
    kept: Mutex<Kept>,
}

impl ConversionWebhook {
    /// The webhook of `spec.conversion.webhook`.
    pub(crate) fn new(
        caller: Option<Arc<dyn ConversionCaller>>,
        webhook: &Value,
        schemas: BTreeMap<String, Arc<SchemaSet>>,
    ) -> Self {
        let versions = webhook.get("conversionReviewVersions").and_then(Value::as_array);
        let known = |v: &Value| ["v1", "v1beta1"].into_iter().find(|known| v == known);
        Self {
            caller,
            config: webhook.get("clientConfig").cloned().unwrap_or_default(),
            version: versions.into_iter().flatten().find_map(known).unwrap_or_default(),
            schemas,
            kept: Mutex::default(),
        }
    }

    /// Entries in the version `to`, in their order. Those that cannot be read stay as they are. `anew` asks the webhook
    /// although the answer may be known.
    pub(crate) async fn entries(
        &self,
        mut entries: Vec<Arc<Entry>>,
        to: &str,
        anew: bool,
    ) -> ApiResult<Vec<Arc<Entry>>> {
        let (mut places, mut objects) = (Vec::new(), Vec::new());
        for (at, entry) in entries.iter_mut().enumerate() {
            if entry.problem().is_some() || entry.api_version() == to {
                continue;
            }
            if let Some(kept) = self.kept.lock().get(entry, to).filter(|_| !anew) {
                *entry = kept;
            } else if let Some(mut object) = entry.value() {
                self.complete(&mut object);
                places.push(at);
                objects.push(object);
            }
        }
        let first = places.first().and_then(|at| entries.get(*at)).cloned();
        let converted =
            self.convert(objects, to).await.map_err(|error| unreadable(first.as_deref(), &error))?;
        for (at, object) in places.into_iter().zip(converted) {
            let Some(entry) = entries.get_mut(at) else { continue };
            let value = Bytes::from(self.encode(object, to));
            let made =
                Arc::new(Entry::new(KeyValue { key: entry.key().into(), value, revision: entry.revision() }));
            self.kept.lock().put(to, &made);
            *entry = made;
        }
        Ok(entries)
    }

    /// One object in the version `to`.
    pub(crate) async fn one(&self, object: Value, to: &str) -> ApiResult<Value> {
        let mut converted = self.convert(vec![object], to).await?;
        converted.pop().ok_or_else(|| ApiError::internal("conversion lost the object"))
    }

    /// The stored bytes of an object.
    pub(crate) fn encode(&self, mut object: Value, version: &str) -> Vec<u8> {
        meta::metadata_mut(&mut object).remove("resourceVersion");
        match self.schemas.get(version).and_then(|set| set.root()) {
            Some(schema) => codec::encode(&object, schema),
            None => object.to_string().into_bytes(),
        }
    }

    /// Fits a stored object to the schema of the version it is stored in.
    fn complete(&self, object: &mut Value) {
        let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        if let Some(schema) = self.schemas.get(version).and_then(|set| set.root()) {
            codec::complete(object, schema);
        }
    }

    /// Objects in the version `to`; none of them is in it.
    async fn convert(&self, objects: Vec<Value>, to: &str) -> ApiResult<Vec<Value>> {
        let (wanted, rest): (Vec<_>, Vec<_>) = objects.into_iter().partition(|o| o["apiVersion"] != *to);
        let Some(first) = wanted.first() else { return Ok(rest) };
        let failed = |why: &str| unreasoned(&format!("conversion webhook for {} {why}", kind_of(first)));
        if self.version.is_empty() {
            return Err(unreasoned("no supported conversion review versions"));
        }
        let caller = self.caller.as_ref().ok_or_else(|| failed("failed: nothing calls webhooks here"))?;
        let uid = uuid::Uuid::new_v4().to_string();
        let review = json!({
            "kind": "ConversionReview", "apiVersion": format!("apiextensions.k8s.io/{}", self.version),
            "request": {"uid": uid, "desiredAPIVersion": to, "objects": wanted},
        });
        let answer =
            caller.call(&self.config, review).await.map_err(|why| failed(&format!("failed: {why}")))?;
        let converted =
            response::objects(self.version, &uid, answer).map_err(|why| failed(&format!("failed: {why}")))?;
        if converted.len() != wanted.len() {
            let counts = format!("returned {} objects, expected {}", converted.len(), wanted.len());
            return Err(failed(&counts));
        }
        let pairs = wanted.iter().zip(converted).enumerate();
        pairs
            .map(|(at, (original, new))| {
                let mut new = response::accept(original, new, to, at).map_err(|why| {
                    unreasoned(&format!("conversion webhook for {} returned {why}", kind_of(original)))
                })?;
                if let Some(schema) = self.schemas.get(to).and_then(|set| set.root()) {
                    copepod_schema::defaults::prune(&mut new, schema);
                }
                Ok(new)
            })
            .collect()
    }
}

/// The error of a stored object that no conversion makes readable, as upstream's storage words it.
fn unreadable(entry: Option<&Entry>, error: &ApiError) -> ApiError {
    let Some(entry) = entry else { return error.clone() };
    let (key, revision) = (entry.key().trim_start_matches("/registry"), entry.revision());
    ApiError::internal(format!(
        "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: object not \
         decodable revision={revision}: {error}"
    ))
}

/// Group, version and kind of an object as error texts show them.
fn kind_of(object: &Value) -> String {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    format!("{}, Kind={}", text("apiVersion"), text("kind"))
}
