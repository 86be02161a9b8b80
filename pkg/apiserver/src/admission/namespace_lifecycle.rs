//! NamespaceLifecycle: nothing is created in a namespace that is missing or going, system namespaces stay.

use std::time::Duration;

use copepod_api::{ApiError, ApiResult, GroupResource};
use copepod_registry::{Admission, Attributes, Operation};
use futures::future::BoxFuture;
use serde_json::Value;

use super::{Deps, forbid};

const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];
/// How long a create waits for a namespace that another writer has just made.
const PATIENCE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct NamespaceLifecycle(pub Deps);

impl Admission for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
    ) -> BoxFuture<'a, ApiResult<()>> {
        Box::pin(self.check(attributes, Some(object)))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> BoxFuture<'a, ApiResult<()>> {
        Box::pin(async move {
            // Creates were checked before mutation; deletes are never mutated.
            if attributes.operation == Operation::Delete {
                self.check(attributes, object).await
            } else {
                Ok(())
            }
        })
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
