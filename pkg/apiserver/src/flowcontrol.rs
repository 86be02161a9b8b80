//! The `Dangling` condition of FlowSchemas: whether the priority level they name exists.
//!
//! Requests are not queued by these objects yet; their state is kept, because tools and tests read it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use copepod_api::field::quote;
use copepod_api::{ApiResult, GroupVersionResource, Reason, meta};
use copepod_registry::{Patch, PatchKind, RequestContext, Target};
use serde_json::{Value, json};

use crate::server::Server;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// Who writes the condition, as upstream names it.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";
/// Before another attempt at what could not be written.
const PAUSE: Duration = Duration::from_secs(2);

/// Keeps the conditions for ever.
pub(crate) async fn follow(server: Arc<Server>) {
    server.registry.ready().await;
    let cache = Arc::clone(server.registry.cache());
    let schemas = cache.bucket("/registry/flowschemas/");
    let levels = cache.bucket("/registry/prioritylevelconfigurations/");
    loop {
        let (one, other) = (schemas.changed(), levels.changed());
        let failed = match look(&server).await {
            Ok(()) => false,
            Err(error) => {
                tracing::warn!(%error, "conditions of flow schemas");
                true
            }
        };
        tokio::select! {
            () = one => {}
            () = other => {}
            () = tokio::time::sleep(PAUSE), if failed => {}
        }
    }
}

async fn look(server: &Server) -> ApiResult<()> {
    let levels = server.reader.list(GROUP, "prioritylevelconfigurations", None, "").await;
    let levels: BTreeSet<&str> = levels.iter().map(meta::name).collect();
    let store = server.registry.store(&GroupVersionResource::new(GROUP, "v1", "flowschemas"));
    let Some(store) = store else { return Ok(()) };
    for schema in server.reader.list(GROUP, "flowschemas", None, "").await {
        let level = schema.pointer("/spec/priorityLevelConfiguration/name").and_then(Value::as_str);
        let level = level.unwrap_or_default();
        let condition = condition(level, levels.contains(level));
        let Some(condition) = due(&schema, condition, copepod_sys::clock::now()) else { continue };
        let cx = RequestContext { field_manager: MANAGER.to_owned(), ..RequestContext::internal() };
        let target = Target::new(None, meta::name(&schema)).sub("status");
        let body = json!({
            "kind": "FlowSchema", "apiVersion": format!("{GROUP}/v1"), "metadata": {"name": meta::name(&schema)},
            "status": {"conditions": [condition]},
        });
        let patch = Patch { kind: PatchKind::Apply, body: body.to_string().into(), force: true };
        match store.patch(&cx, &target, &patch).await {
            Err(error) if !error.is(Reason::Conflict) && !error.is(Reason::NotFound) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn condition(level: &str, exists: bool) -> Value {
    let what =
        format!("This FlowSchema references the PriorityLevelConfiguration object named {}", quote(level));
    if exists {
        json!({"type": "Dangling", "status": "False", "reason": "Found", "message": format!("{what} and it exists")})
    } else {
        let message = format!("{what} but there is no such object");
        json!({"type": "Dangling", "status": "True", "reason": "NotFound", "message": message})
    }
}

/// The condition as it is to be written; `None` when the object has it already.
fn due(schema: &Value, mut condition: Value, now: jiff::Timestamp) -> Option<Value> {
    let list = schema.pointer("/status/conditions").and_then(Value::as_array);
    let old = list.into_iter().flatten().find(|c| c["type"] == "Dangling");
    let same = old.filter(|old| old["status"] == condition["status"]);
    condition["lastTransitionTime"] = match same {
        Some(old) => old["lastTransitionTime"].clone(),
        None => now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into(),
    };
    (old != Some(&condition)).then_some(condition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_once() {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let first = due(&json!({"status": {}}), condition("x", false), now).unwrap();
        assert_eq!(first["reason"], "NotFound");
        let schema = json!({"status": {"conditions": [first]}});
        assert_eq!(due(&schema, condition("x", false), now), None);
        let found = due(&schema, condition("x", true), now).unwrap();
        assert_eq!(found["status"], "False");
    }
}
