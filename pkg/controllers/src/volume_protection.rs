//! Claims, volumes and attributes classes in use are not deleted before their users are gone: a finalizer holds them.
//! Claims also tell since when nobody uses them.

use copepod_client::resources::{
    PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, VOLUME_ATTRIBUTES_CLASSES,
};
use copepod_client::{
    ClientError, Delta, Informer, InformerConfig, ListOptions, Meta, ObjectKey, Outcome, ResourceRef,
    WorkQueue,
};
use copepod_sys::clock;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::context::{Context, SyncResult, enqueue};
use crate::step::{Step, execute_all};
use crate::views::{Claim, HasMeta, MetaOnly, Pod};

const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";
const ATTRIBUTES_FINALIZER: &str = "kubernetes.io/vac-protection";

/// Starts the controller of claims.
pub(crate) fn start_claims(context: &Context) {
    let queue = WorkQueue::new();
    enqueue(&context.caches.claims, &queue);
    let pods = queue.clone();
    context.caches.pods.on_change(move |key, delta| {
        let (old, new) = (delta.old(), delta.object());
        // Whether a pod uses a claim depends on these alone.
        let facts = |pod: &Pod| {
            (pod.metadata.uid.clone(), pod.spec.node_name.clone(), pod.terminated(), shut_down(pod))
        };
        if old.is_none_or(|old| facts(old) != facts(new)) {
            for pod in old.into_iter().chain([new]) {
                pod.claim_names().for_each(|(name, _)| pods.add(ObjectKey::new(&key.namespace, &name)));
            }
        }
    });
    context.work(&queue, 1, |context, key| async move {
        let Some(claim) = context.caches.claims.get_key(&key) else { return Ok(Outcome::Done) };
        sync_claim(&context, &claim).await.map(|()| Outcome::Done)
    });
}

async fn sync_claim(context: &Context, claim: &Claim) -> Result<(), ClientError> {
    let meta = &claim.metadata;
    let pods = context.caches.pods.list_namespace(&meta.namespace);
    if !meta.deleting() && &*claim.status.phase == "Bound" {
        let used = pods.iter().any(|pod| !pod.terminated() && names(pod, claim, false));
        execute_all(context, plan_unused(claim, used, clock::now()).into_iter().collect()).await?;
    }
    let mut used = pods.iter().any(|pod| holds_claim(pod, claim));
    if meta.deleting() && !used {
        // The cache may be behind, and what is gone is gone.
        let (target, all) = (PODS.collection(&meta.namespace), ListOptions::default());
        let live = context.client.list_all::<Pod>(&target, &all).await?;
        used = live.items.iter().any(|pod| holds_claim(pod, claim));
    }
    let step = plan(&PERSISTENT_VOLUME_CLAIMS, meta, CLAIM_FINALIZER, used);
    execute_all(context, step.into_iter().collect()).await
}

/// The kubelet is done with it, or it was deleted by force.
fn shut_down(pod: &Pod) -> bool {
    pod.metadata.deleting() && pod.metadata.deletion_grace_period_seconds == Some(0)
}

/// Whether a pod names a claim. `shut` leaves out the ephemeral volumes of pods the kubelet is done with.
fn names(pod: &Pod, claim: &Claim, shut: bool) -> bool {
    let owned = || claim.metadata.controller().is_some_and(|owner| owner.uid == pod.metadata.uid);
    pod.claim_names().any(|(name, ephemeral)| {
        *name == *claim.metadata.name && (!ephemeral || (owned() && !(shut && shut_down(pod))))
    })
}

/// Whether a pod keeps a claim from being deleted: one that was never placed holds nothing.
fn holds_claim(pod: &Pod, claim: &Claim) -> bool {
    !pod.spec.node_name.is_empty() && names(pod, claim, true)
}

/// The condition `Unused`, when it has to change.
fn plan_unused(claim: &Claim, used: bool, now: Timestamp) -> Option<Step> {
    let is_unused = |condition: &Value| condition["type"] == "Unused";
    let mut all = claim.status.conditions.clone();
    let known = all.iter_mut().find(|c| is_unused(c));
    if known.as_ref().is_some_and(|c| (c["status"] == "True") != used) {
        return None;
    }
    let (status, reason, message) = if used {
        ("False", "PodUsingPVC", "A pod is currently referencing this PVC")
    } else {
        ("True", "NoPodsUsingPVC", "No pods are currently referencing this PVC")
    };
    let new = json!({
        "type": "Unused", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": format!("{now:.0}"),
    });
    match known {
        Some(old) => *old = new,
        None => all.push(new),
    }
    Some(Step::status(&PERSISTENT_VOLUME_CLAIMS, &claim.metadata, json!({"conditions": all})))
}

/// Starts the controller of volumes.
pub(crate) fn start_volumes(context: &Context) {
    let queue: WorkQueue<ObjectKey> = WorkQueue::new();
    enqueue(&context.caches.volumes, &queue);
    context.work(&queue, 1, |context, key| async move {
        let Some(volume) = context.caches.volumes.get_key(&key) else { return Ok(Outcome::Done) };
        let bound = &*volume.status.phase == "Bound";
        hold(&context, &PERSISTENT_VOLUMES, &volume.metadata, VOLUME_FINALIZER, bound).await
    });
}

/// Starts the controller of attributes classes.
pub(crate) fn start_attributes(context: &Context) {
    let queue: WorkQueue<ObjectKey> = WorkQueue::new();
    let classes: Informer<MetaOnly> =
        Informer::new(InformerConfig::all(VOLUME_ATTRIBUTES_CLASSES).metadata_only());
    enqueue(&classes, &queue);
    classes.start(&context.reader, &context.shutdown);
    let freed = queue.clone();
    context.caches.claims.on_change(move |_, delta| {
        // The class that is no longer used may be what a deletion waits for.
        let left = if matches!(delta, Delta::Deleted(_)) { Some(delta.object()) } else { delta.old() };
        left.into_iter()
            .flat_map(|claim| claim.attributes_classes())
            .for_each(|c| freed.add(ObjectKey::new("", c)));
    });
    let freed = queue.clone();
    context.caches.volumes.on_change(move |_, delta| {
        let left = if matches!(delta, Delta::Deleted(_)) { Some(delta.object()) } else { delta.old() };
        let class = left.and_then(|volume| volume.spec.volume_attributes_class_name.as_deref());
        class.into_iter().for_each(|class| freed.add(ObjectKey::new("", class)));
    });
    context.work(&queue, 1, move |context, key| {
        let classes = classes.clone();
        async move {
            classes.synced().await;
            let Some(class) = classes.get_key(&key) else { return Ok(Outcome::Done) };
            let (claims, volumes) = (context.caches.claims.list(), context.caches.volumes.list());
            let used = claims.iter().any(|c| c.attributes_classes().any(|name| *name == *key.name))
                || volumes.iter().any(|v| v.spec.volume_attributes_class_name.as_deref() == Some(&*key.name));
            hold(&context, &VOLUME_ATTRIBUTES_CLASSES, class.meta(), ATTRIBUTES_FINALIZER, used).await
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
        let mut dying = Meta { deletion_timestamp: Some(Timestamp::UNIX_EPOCH), ..live };
        assert!(plan(&PERSISTENT_VOLUME_CLAIMS, &dying, CLAIM_FINALIZER, false).is_none());
        dying.finalizers.push(CLAIM_FINALIZER.to_owned());
        assert!(plan(&PERSISTENT_VOLUME_CLAIMS, &dying, CLAIM_FINALIZER, true).is_none());
        let step = plan(&PERSISTENT_VOLUME_CLAIMS, &dying, CLAIM_FINALIZER, false);
        assert!(format!("{step:?}").contains("Null"));
    }

    fn pod(spec: Value, status: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "uid": "u"}, "spec": spec, "status": status}))
            .unwrap()
    }

    #[test]
    fn placed_pods_hold_their_claims_even_when_they_have_ended() {
        let claim: Claim = serde_json::from_value(json!({"metadata": {"name": "c"}})).unwrap();
        let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
        assert!(!holds_claim(&pod(json!({"volumes": volumes}), json!({})), &claim));
        let ended = pod(json!({"nodeName": "n", "volumes": volumes}), json!({"phase": "Succeeded"}));
        assert!(holds_claim(&ended, &claim));
        let mut own: Claim = serde_json::from_value(json!({"metadata": {"name": "p-v"}})).unwrap();
        let ephemeral = pod(json!({"nodeName": "n", "volumes": [{"name": "v", "ephemeral": {}}]}), json!({}));
        assert!(!holds_claim(&ephemeral, &own), "somebody else's claim of that name");
        own.metadata
            .owner_references
            .push(crate::ownership::controller_reference(&PODS, &ephemeral.metadata));
        assert!(holds_claim(&ephemeral, &own));
    }

    #[test]
    fn since_when_nobody_uses_a_claim_is_told() {
        let now = Timestamp::UNIX_EPOCH;
        let mut claim = Claim::default();
        let step = plan_unused(&claim, false, now);
        assert!(format!("{step:?}").contains("NoPodsUsingPVC"));
        claim.status.conditions.push(json!({"type": "Unused", "status": "True"}));
        assert_eq!(plan_unused(&claim, false, now), None);
        assert!(format!("{:?}", plan_unused(&claim, true, now)).contains("PodUsingPVC"));
    }
}
