//! NamespaceLifecycle: nothing is created in a namespace that is missing or going, system namespaces stay.

use std::time::Duration;

use async_trait::async_trait;
use copepod_api::{ApiError, ApiResult, GroupResource};
use copepod_registry::{Admission, Attributes, Operation};
use serde_json::Value;

use super::{Deps, forbid};

const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];
/// How long a create waits for a namespace that another writer has just made.
const PATIENCE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct NamespaceLifecycle(pub Deps);

#[async_trait]
impl Admission for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> ApiResult<()> {
        self.check(attributes, Some(object)).await
    }

    async fn admit_delete(&self, attributes: &Attributes<'_>) -> ApiResult<()> {
        self.check(attributes, None).await
    }
}

impl NamespaceLifecycle {
    async fn check(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> ApiResult<()> {
        let is_namespace =
            attributes.resource.group.is_empty() && attributes.resource.resource == "namespaces";
        if attributes.operation == Operation::Delete && is_namespace && IMMORTAL.contains(&attributes.name) {
            return Err(forbid(attributes, attributes.old, "this namespace may not be deleted"));
        }
        if attributes.namespace.is_empty() || is_namespace {
            return Ok(());
        }
        // Access reviews tell nothing about the namespace.
        if attributes.resource.resource == "localsubjectaccessreviews" {
            return Ok(());
        }
        if matches!(attributes.operation, Operation::Delete | Operation::Update | Operation::Connect) {
            return Ok(());
        }
        let namespace = self.namespace(attributes.namespace).await?;
        if namespace.pointer("/status/phase").and_then(Value::as_str) != Some("Terminating") {
            return Ok(());
        }
        let name = attributes.namespace;
        let why = format!("unable to create new content in namespace {name} because it is being terminated");
        let mut error = forbid(attributes, object, why);
        let details = error.status_mut().details.get_or_insert_default();
        details.causes.push(copepod_api::status::StatusCause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {name} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
        Err(error)
    }

    async fn namespace(&self, name: &str) -> ApiResult<Value> {
        if let Some(found) = self.0.reader.get("", "namespaces", None, name).await {
            return Ok(found);
        }
        tokio::time::sleep(PATIENCE).await;
        let found = self.0.reader.get("", "namespaces", None, name).await;
        found.ok_or_else(|| ApiError::not_found(&GroupResource::new("", "namespaces"), name))
    }
}
