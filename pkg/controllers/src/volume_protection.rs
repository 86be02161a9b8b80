//! Claims and volumes in use are not deleted before their users are gone: a finalizer holds them.

use std::sync::Arc;

use copepod_client::resources::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use copepod_client::{Informer, InformerConfig, Meta, ObjectKey, Outcome, ResourceRef, WorkQueue};
use serde::Deserialize;
use serde_json::json;

use crate::context::{Context, SyncResult, enqueue};
use crate::step::{Step, execute_all};
use crate::views::{HasMeta, PhaseStatus, Pod};

const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";

/// Starts the controller of claims.
pub(crate) fn start_claims(context: &Context) {
    let queue = WorkQueue::new();
    enqueue(&context.caches.claims, &queue);
    let pods = queue.clone();
    context.caches.pods.on_change(move |key, delta| {
        // Only the end of a pod can free a claim.
        let pod = delta.object();
        if matches!(delta, copepod_client::Delta::Deleted(_)) || pod.finished() {
            claim_names(pod).for_each(|name| pods.add(ObjectKey::new(&key.namespace, name)));
        }
    });
    context.work(&queue, 1, |context, key| async move {
        let Some(claim) = context.caches.claims.get_key(&key) else { return Ok(Outcome::Done) };
        let used = context.caches.pods.list_namespace(&key.namespace);
        let used = used.iter().any(|p| uses(p, &key.name));
        hold(&context, &PERSISTENT_VOLUME_CLAIMS, claim.meta(), CLAIM_FINALIZER, used).await
    });
}

fn claim_names(pod: &Pod) -> impl Iterator<Item = &str> {
    pod.spec.volumes.iter().filter_map(|v| v.persistent_volume_claim.as_ref()).map(|c| c.claim_name.as_str())
}

/// A pod that was never placed holds nothing.
fn uses(pod: &Arc<Pod>, claim: &str) -> bool {
    !pod.finished() && !pod.spec.node_name.is_empty() && claim_names(pod).any(|name| name == claim)
}

#[derive(Debug, Deserialize)]
struct Volume {
    metadata: Meta,
    #[serde(default)]
    status: PhaseStatus,
}

/// Starts the controller of volumes.
pub(crate) fn start_volumes(context: &Context) {
    let queue: WorkQueue<ObjectKey> = WorkQueue::new();
    let volumes: Informer<Volume> = Informer::new(InformerConfig::all(PERSISTENT_VOLUMES));
    enqueue(&volumes, &queue);
    volumes.start(&context.reader, &context.shutdown);
    context.work(&queue, 1, move |context, key| {
        let volumes = volumes.clone();
        async move {
            volumes.synced().await;
            let Some(volume) = volumes.get_key(&key) else { return Ok(Outcome::Done) };
            let bound = &*volume.status.phase == "Bound";
            hold(&context, &PERSISTENT_VOLUMES, &volume.metadata, VOLUME_FINALIZER, bound).await
        }
    });
}

/// Puts the finalizer on what lives, and takes it off what is to go and is not in use.
async fn hold(
    context: &Context,
    resource: &ResourceRef,
    meta: &Meta,
    finalizer: &str,
    used: bool,
) -> SyncResult {
    let steps = plan(resource, meta, finalizer, used).into_iter().collect();
    execute_all(context, steps).await.map(|()| Outcome::Done)
}

fn plan(resource: &ResourceRef, meta: &Meta, finalizer: &str, used: bool) -> Option<Step> {
    let held = meta.finalizers.iter().any(|f| f == finalizer);
    let mut finalizers = meta.finalizers.clone();
    match (meta.deleting(), held) {
        (false, false) => finalizers.push(finalizer.to_owned()),
        (true, true) if !used => finalizers.retain(|f| f != finalizer),
        _ => return None,
    }
    let value = if finalizers.is_empty() { json!(null) } else { json!(finalizers) };
    let body = json!({"metadata": {"resourceVersion": meta.resource_version, "finalizers": value}});
    Some(Step::merge(resource, meta, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_hold_what_is_in_use() {
        let live = Meta { name: "c".to_owned(), ..Meta::default() };
        let step = plan(&PERSISTENT_VOLUME_CLAIMS, &live, CLAIM_FINALIZER, false);
        assert!(format!("{step:?}").contains(CLAIM_FINALIZER));
        let mut dying = Meta { deletion_timestamp: Some(jiff::Timestamp::UNIX_EPOCH), ..live };
        assert!(plan(&PERSISTENT_VOLUME_CLAIMS, &dying, CLAIM_FINALIZER, false).is_none());
        dying.finalizers.push(CLAIM_FINALIZER.to_owned());
        assert!(plan(&PERSISTENT_VOLUME_CLAIMS, &dying, CLAIM_FINALIZER, true).is_none());
        let step = plan(&PERSISTENT_VOLUME_CLAIMS, &dying, CLAIM_FINALIZER, false);
        assert!(format!("{step:?}").contains("Null"));
    }
}
