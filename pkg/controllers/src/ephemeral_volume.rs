//! Ephemeral volumes: a claim for each, owned by its pod.

use copepod_client::resources::{PERSISTENT_VOLUME_CLAIMS, PODS};
use copepod_client::{ClientError, EventKind, ObjectKey, ObjectRef, Outcome, WorkQueue};
use serde_json::{Value, json};

use crate::context::{Context, SyncResult};
use crate::ownership::controller_reference;
use crate::step::{Step, execute_all};
use crate::views::{Claim, Pod};

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    let pods = queue.clone();
    context.caches.pods.on_change(move |key, delta| {
        // A pod's volumes never change, so a new pod is all there is to see.
        if delta.old().is_none() && needs_claims(delta.object()) {
            pods.add(key.clone());
        }
    });
    let (all, claims) = (context.caches.pods.clone(), queue.clone());
    context.caches.claims.on_change(move |key, delta| {
        if matches!(delta, copepod_client::Delta::Deleted(_)) {
            let pods = all.list_namespace(&key.namespace);
            let users = pods.iter().filter(|p| p.claim_names().any(|(name, own)| own && *name == *key.name));
            users.for_each(|pod| claims.add(pod.metadata.key()));
        }
    });
    context.work(&queue, 1, sync);
}

fn needs_claims(pod: &Pod) -> bool {
    !pod.metadata.deleting() && pod.spec.volumes.iter().any(|volume| volume.ephemeral.is_some())
}

async fn sync(context: Context, key: ObjectKey) -> SyncResult {
    let Some(pod) = context.caches.pods.get_key(&key).filter(|pod| needs_claims(pod)) else {
        return Ok(Outcome::Done);
    };
    for volume in pod.spec.volumes.iter().filter(|volume| volume.ephemeral.is_some()) {
        let name = format!("{}-{}", pod.metadata.name, volume.name);
        let existing = context.caches.claims.get(&key.namespace, &name);
        let failure = match existing {
            Some(claim) => stranger(&pod, &claim),
            None => {
                let template = volume.ephemeral.as_ref().map(|e| e.volume_claim_template.value());
                let step = create(&pod, &name, &template.unwrap_or_default());
                create_failure(&name, execute_all(&context, vec![step]).await)
            }
        };
        if let Some(why) = failure {
            let text = format!("ephemeral volume {}: {why}", volume.name);
            context.recorder.event(
                ObjectRef::of(&PODS, &pod.metadata),
                EventKind::Warning,
                "FailedBinding",
                text,
            );
            return Ok(Outcome::Retry);
        }
    }
    Ok(Outcome::Done)
}

fn create_failure(name: &str, result: Result<(), ClientError>) -> Option<String> {
    result
        .err()
        .filter(|error| !error.namespace_terminating())
        .map(|error| format!("create PVC {name}: {error}"))
}

/// Why a claim of the right name is not the pod's.
fn stranger(pod: &Pod, claim: &Claim) -> Option<String> {
    let owned = claim.metadata.controller().is_some_and(|owner| owner.uid == pod.metadata.uid);
    let text = || {
        format!(
            "PVC {} was not created for pod {} (pod is not owner)",
            claim.metadata.key(),
            pod.metadata.key()
        )
    };
    (!owned).then(text)
}

fn create(pod: &Pod, name: &str, template: &Value) -> Step {
    let mut metadata = json!({"name": name, "ownerReferences": [controller_reference(&PODS, &pod.metadata)]});
    for key in ["annotations", "labels"] {
        if let Some(map) = template.pointer(&format!("/metadata/{key}")) {
            metadata[key] = map.clone();
        }
    }
    let body = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]});
    Step::Create { resource: PERSISTENT_VOLUME_CLAIMS, namespace: pod.metadata.namespace.clone(), body }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claim_is_the_pods_and_nobody_elses() {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}))
                .unwrap();
        let template =
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"accessModes": ["ReadWriteOnce"]}});
        let Step::Create { body, .. } = create(&pod, "p-data", &template) else { panic!("a creation") };
        assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(body["metadata"]["labels"]["a"], "b");
        let mut claim: Claim = serde_json::from_value(body).unwrap();
        claim.metadata.namespace = "ns".to_owned();
        assert_eq!(stranger(&pod, &claim), None);
        claim.metadata.owner_references.clear();
        assert_eq!(
            stranger(&pod, &claim).unwrap(),
            "PVC ns/p-data was not created for pod ns/p (pod is not owner)"
        );
    }
}
