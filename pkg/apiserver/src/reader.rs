//! In-process reads of stored objects, for authentication, authorization and admission.

use std::sync::Arc;

use copepod_api::GroupVersionResource;
use copepod_registry::{ListOptions, Registry, RequestContext, Target};
use serde_json::Value;

/// Reads objects from the registry with the server's own identity.
#[derive(Clone)]
pub(crate) struct Reader(pub Arc<Registry>);

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reader")
    }
}

impl Reader {
    /// One object of the `v1` of a built-in group; `None` when it does not exist or cannot be read.
    pub(crate) async fn get(
        &self,
        group: &str,
        resource: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Option<Value> {
        let store = self.0.store(&GroupVersionResource::new(group, "v1", resource))?;
        let target = Target::new(namespace, name);
        store
            .get(&RequestContext::internal(), &target, "0")
            .await
            .ok()
            .map(copepod_registry::Object::into_value)
    }

    /// All objects of the `v1` of a built-in group that a field selector matches.
    pub(crate) async fn list(
        &self,
        group: &str,
        resource: &str,
        namespace: Option<&str>,
        field_selector: &str,
    ) -> Vec<Value> {
        let Some(store) = self.0.store(&GroupVersionResource::new(group, "v1", resource)) else {
            return Vec::new();
        };
        let options = ListOptions {
            resource_version: "0".to_owned(),
            field_selector: field_selector.to_owned(),
            ..ListOptions::default()
        };
        match store.list(&RequestContext::internal(), namespace, &options).await {
            Ok(list) => list.items.into_iter().map(copepod_registry::Object::into_value).collect(),
            Err(error) => {
                tracing::warn!(%error, resource, "list");
                Vec::new()
            }
        }
    }
}
