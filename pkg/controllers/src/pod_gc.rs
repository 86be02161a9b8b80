//! Pods that nobody else removes: on nodes that are gone, never placed and being deleted, or ended and too many.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use copepod_client::resources::{NODES, PODS};
use copepod_client::{ClientError, DeleteOptions, OptionalExt, Patch};
use copepod_sys::clock;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::context::Context;
use crate::step::{Step, execute_all};
use crate::views::{MetaOnly, Pod};

const PAUSE: Duration = Duration::from_secs(20);
/// A node must be gone this long before its pods are: it may only be registering again.
const QUARANTINE: Duration = Duration::from_secs(40);

/// Since when nodes are missing.
type Missing = Arc<Mutex<BTreeMap<String, Instant>>>;

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let missing = Missing::default();
    context.every(PAUSE, move |context| {
        let missing = Arc::clone(&missing);
        async move { collect(&context, &missing).await }
    });
}

async fn collect(context: &Context, missing: &Missing) -> Result<(), ClientError> {
    let pods = context.caches.pods.list();
    let gone = gone_nodes(context, &pods, missing).await?;
    let orphaned = |p: &&Arc<Pod>| gone.contains(&p.spec.node_name.to_string());
    let unplaced = |p: &&Arc<Pod>| p.metadata.deleting() && p.spec.node_name.is_empty();
    for pod in pods.iter().filter(|p| orphaned(p) || unplaced(p)) {
        execute_all(context, plan(pod, !pod.spec.node_name.is_empty())).await?;
    }
    let threshold = context.config.terminated_pod_gc_threshold;
    let mut ended: Vec<_> = pods.iter().filter(|p| p.finished() && !p.metadata.deleting()).collect();
    ended.sort_by_key(|p| p.metadata.creation_timestamp);
    let surplus = if threshold == 0 { 0 } else { ended.len().saturating_sub(threshold) };
    for pod in ended.into_iter().take(surplus) {
        execute_all(context, plan(pod, false)).await?;
    }
    Ok(())
}

/// Nodes that pods are bound to, that the cache has missed for a while, and that the server does not know either.
async fn gone_nodes(
    context: &Context,
    pods: &[Arc<Pod>],
    missing: &Missing,
) -> Result<Vec<String>, ClientError> {
    let now = Instant::now();
    let mut due = Vec::new();
    {
        let mut since = missing.lock();
        since.retain(|name, _| context.caches.nodes.get("", name).is_none());
        for pod in pods.iter().filter(|p| !p.spec.node_name.is_empty()) {
            let name = pod.spec.node_name.to_string();
            if context.caches.nodes.get("", &name).is_none() {
                let at = *since.entry(name.clone()).or_insert(now);
                if now.duration_since(at) >= QUARANTINE && !due.contains(&name) {
                    due.push(name);
                }
            }
        }
    }
    let mut gone = Vec::new();
    for name in due {
        if context.client.get::<MetaOnly>(&NODES.object("", &name)).await.optional()?.is_none() {
            gone.push(name);
        }
    }
    Ok(gone)
}

/// A pod that can never end by itself is marked as failed, then removed without grace.
fn plan(pod: &Pod, orphaned: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    if !pod.finished() {
        let mut status = json!({"phase": "Failed"});
        if orphaned {
            status["conditions"] = json!([{
                "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists", "lastTransitionTime": clock::now(),
            }]);
        }
        steps.push(Step::Patch {
            resource: PODS,
            key: pod.metadata.key(),
            subresource: "status",
            patch: Patch::Strategic(json!({"status": status})),
        });
    }
    steps.push(Step::Delete {
        resource: PODS,
        key: pod.metadata.key(),
        uid: pod.metadata.uid.clone(),
        options: DeleteOptions::uid(&pod.metadata.uid).grace(0),
    });
    steps
}
