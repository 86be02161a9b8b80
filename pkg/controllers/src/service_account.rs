//! Every namespace has its ServiceAccount `default`.

use copepod_client::resources::SERVICE_ACCOUNTS;
use copepod_client::{ObjectKey, Outcome, WorkQueue};
use serde_json::json;

use crate::context::{Context, SyncResult, enqueue};
use crate::step::{Step, execute};

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    enqueue(&context.caches.namespaces, &queue);
    let accounts = queue.clone();
    context.caches.service_accounts.on_change(move |key, _| {
        if key.name == "default" {
            accounts.add(ObjectKey::new("", &key.namespace));
        }
    });
    context.work(&queue, 1, sync);
}

async fn sync(context: Context, key: ObjectKey) -> SyncResult {
    let namespace = context.caches.namespaces.get_key(&key).filter(|ns| &*ns.status.phase != "Terminating");
    if namespace.is_none() || context.caches.service_accounts.get(&key.name, "default").is_some() {
        return Ok(Outcome::Done);
    }
    let body = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let step = Step::Create { resource: SERVICE_ACCOUNTS, namespace: key.name.clone(), body };
    tolerate_race(execute(&context, vec![step]).await.pop())
}

/// That somebody was faster, or that the namespace is on its way out, is as good as done.
pub(crate) fn tolerate_race(result: Option<crate::step::StepResult>) -> SyncResult {
    match result {
        Some(Err(error))
            if error.is_already_exists() || error.namespace_terminating() || error.not_found() =>
        {
            Ok(Outcome::Done)
        }
        Some(Err(error)) => Err(error),
        _ => Ok(Outcome::Done),
    }
}
