//! What the definition of a custom resource says while its objects are migrated.

use copepod_client::resources::CUSTOM_RESOURCE_DEFINITIONS;
use copepod_client::{ClientError, OptionalExt, Patch};
use copepod_sys::clock;
use serde_json::{Value, json};

use super::Resource;
use crate::context::Context;

const MANAGER: &str = "migration-runner-controller";
/// Attempts when others write the definition at the same time.
const ATTEMPTS: usize = 5;

/// Says that it is being migrated.
pub(super) async fn begin(context: &Context, resource: &Resource, by: &str) -> Result<(), ClientError> {
    apply(context, resource, |definition| {
        let text = format!("Migration {by} is running");
        json!({"conditions": [condition(definition, "True", "MigrationRunning", text)]})
    })
    .await
}

/// Says how it ended, and forgets the versions that nothing is stored in any more.
pub(super) async fn finish(context: &Context, resource: &Resource, success: bool) -> Result<(), ClientError> {
    apply(context, resource, |definition| finished(definition, success)).await
}

fn finished(definition: &Value, success: bool) -> Value {
    let list = |path: &str| definition.pointer(path).and_then(Value::as_array).into_iter().flatten();
    let told = list("/status/conditions").find(|c| c["type"] == "StorageMigrating");
    let same = told.is_some_and(|c| c["observedGeneration"] == definition["metadata"]["generation"]);
    let (reason, text) = match (success, same) {
        (true, true) => {
            ("MigrationSucceeded", "The migration has succeeded and the stored versions have been updated")
        }
        (true, false) => (
            "MigrationSucceeded",
            "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
        ),
        (false, _) => ("MigrationFailed", "The migration has failed"),
    };
    let mut status = json!({"conditions": [condition(definition, "False", reason, text.to_owned())]});
    if let Some(stored) = list("/spec/versions").find(|v| v["storage"] == true).filter(|_| same) {
        status["storedVersions"] = json!([stored["name"]]);
    }
    status
}

fn condition(definition: &Value, status: &str, reason: &str, message: String) -> Value {
    json!({
        "type": "StorageMigrating", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": format!("{:.0}", clock::now()),
        "observedGeneration": definition["metadata"]["generation"],
    })
}

/// Applies a status made from the definition as it is, if there is one.
async fn apply(
    context: &Context,
    resource: &Resource,
    status: impl Fn(&Value) -> Value,
) -> Result<(), ClientError> {
    let name = format!("{}.{}", resource.resource, resource.group);
    let target = CUSTOM_RESOURCE_DEFINITIONS.object("", &name);
    for attempt in 1.. {
        let Some(found) = context.client.get::<Value>(&target).await.optional()? else { return Ok(()) };
        let body = json!({
            "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version(), "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
            "metadata": {"name": name, "resourceVersion": found["metadata"]["resourceVersion"]},
            "status": status(&found),
        });
        let patch = Patch::Apply { body, manager: MANAGER.to_owned(), force: true };
        match context.client.patch::<Value>(&target.clone().subresource("status"), &patch).await {
            Err(error) if error.conflict() && attempt < ATTEMPTS => {}
            other => return other.map(drop),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_version_that_is_left_is_kept() {
        let definition = json!({
            "metadata": {"generation": 2},
            "spec": {"versions": [{"name": "v1", "storage": false}, {"name": "v2", "storage": true}]},
            "status": {"conditions": [{"type": "StorageMigrating", "observedGeneration": 2}], "storedVersions": ["v1", "v2"]},
        });
        assert_eq!(finished(&definition, true)["storedVersions"], json!(["v2"]));
        let mut changed = definition;
        changed["metadata"]["generation"] = json!(3);
        assert_eq!(finished(&changed, true).get("storedVersions"), None);
    }
}
