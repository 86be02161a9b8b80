//! The claims of a set's pods: made before the pod, and owned by whoever takes them along when it goes.

use std::sync::Arc;

use copepod_client::resources::{PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS};
use copepod_client::{ClientError, EventKind, Meta, OwnerReference, ResourceRef};
use serde_json::{Value, json};

use super::plan::State;
use crate::context::Context;
use crate::ownership::controller_reference;
use crate::step::{Step, event, execute};
use crate::views::{Claim, ClaimRetention, StatefulSet};

/// Volume name, claim name and claim template of each claim of a pod.
pub(super) fn claims(set: &StatefulSet, ordinal: i64) -> Vec<(String, String, Value)> {
    let templates = set.spec.volume_claim_templates.value();
    let templates = templates.as_array().cloned().unwrap_or_default();
    templates
        .into_iter()
        .map(|template| {
            let volume = copepod_api::meta::name(&template).to_owned();
            let claim = format!("{volume}-{}-{ordinal}", set.metadata.name);
            (volume, claim, template)
        })
        .collect()
}

/// Makes what is missing.
pub(super) async fn make(context: &Context, state: &State, ordinal: i64) -> Result<(), ClientError> {
    let set = &state.set;
    let namespace = &set.metadata.namespace;
    for (_, name, template) in claims(set, ordinal) {
        match context.caches.claims.get(namespace, &name) {
            Some(claim) if claim.metadata.deleting() => {
                return Err(ClientError::Config(format!("pvc {name} is being deleted")));
            }
            Some(_) => continue,
            None => {}
        }
        let body = body(set, &name, template);
        let step = Step::Create { resource: PERSISTENT_VOLUME_CLAIMS, namespace: namespace.clone(), body };
        let (about, pod) = ((&STATEFUL_SETS, &set.metadata), format!("{}-{ordinal}", set.metadata.name));
        match execute(context, vec![step]).await.pop() {
            Some(Err(error)) if error.is_already_exists() => {}
            Some(Err(error)) => {
                let set = &set.metadata.name;
                let text =
                    format!("Create Claim {name} for Pod {pod} in StatefulSet {set} failed error: {error}");
                event(context, about, EventKind::Warning, "FailedCreate", text);
                return Err(error);
            }
            _ => {
                let set = &set.metadata.name;
                let text = format!("Create Claim {name} Pod {pod} in StatefulSet {set} success");
                event(context, about, EventKind::Normal, "SuccessfulCreate", text);
            }
        }
    }
    Ok(())
}

fn body(set: &StatefulSet, name: &str, template: Value) -> Value {
    let mut body = template;
    if let Some(body) = body.as_object_mut() {
        body.remove("status");
        body.insert("apiVersion".to_owned(), json!("v1"));
        body.insert("kind".to_owned(), json!(PERSISTENT_VOLUME_CLAIMS.kind));
    }
    let metadata = copepod_api::meta::metadata_mut(&mut body);
    metadata.insert("name".to_owned(), json!(name));
    metadata.insert("namespace".to_owned(), json!(set.metadata.namespace));
    let selector = set.spec.selector.source.value();
    let labels = copepod_api::meta::child_mut(metadata, "labels");
    labels.extend(selector.get("matchLabels").and_then(Value::as_object).cloned().unwrap_or_default());
    body
}

fn policy(set: &StatefulSet) -> (bool, bool) {
    let policy = set.spec.persistent_volume_claim_retention_policy.as_ref();
    let deletes = |of: fn(&ClaimRetention) -> &str| policy.is_some_and(|p| of(p) == "Delete");
    (deletes(|p| &p.when_scaled), deletes(|p| &p.when_deleted))
}

fn same(reference: &OwnerReference, resource: &ResourceRef, name: &str) -> bool {
    reference.api_version == resource.api_version()
        && *reference.kind == *resource.kind
        && reference.name == name
}

/// Whether a claim still goes with a pod of the same name that is gone: a new pod must wait until the claim is gone too.
pub(super) fn stale(set: &StatefulSet, claim: &Claim, pod: &str) -> bool {
    policy(set).0 && claim.metadata.owner_references.iter().any(|r| same(r, &PODS, pod))
}

/// The patch that gives a claim of a pod the owners the set's policy wants, if it has others. `inside` tells that the
/// pod is one of the set's replicas now.
pub(super) fn plan_owner(set: &StatefulSet, pod: &Meta, inside: bool, claim: &Arc<Claim>) -> Option<Step> {
    let owners = &claim.metadata.owner_references;
    let resources: [(&ResourceRef, &Meta); 2] = [(&STATEFUL_SETS, &set.metadata), (&PODS, pod)];
    let ours = |r: &OwnerReference| resources.iter().any(|(resource, meta)| same(r, resource, &meta.name));
    let known = |r: &OwnerReference| resources.iter().any(|(_, meta)| r.uid == meta.uid);
    // Somebody who is gone manages it: the garbage collector will see to that.
    if owners.iter().any(|r| ours(r) && !known(r)) {
        return None;
    }
    let (scaled, deleted) = policy(set);
    let foreign = (scaled || deleted) && owners.iter().any(|r| !ours(r) && r.controller == Some(true));
    let by_set = !foreign && deleted && (inside || !scaled);
    let by_pod = !foreign && scaled && !inside;
    let wanted = [(by_set, resources[0]), (by_pod, resources[1])];
    let fits = wanted.iter().all(|(wanted, (_, meta))| {
        let mut held = owners.iter().filter(|r| r.uid == meta.uid).peekable();
        held.peek().is_some() == *wanted && held.all(|r| r.controller == Some(true))
    });
    if fits {
        return None;
    }
    let mut all: Vec<_> = owners.iter().filter(|r| !ours(r)).cloned().collect();
    all.extend(
        wanted
            .iter()
            .filter(|(wanted, _)| *wanted)
            .map(|(_, (resource, meta))| controller_reference(resource, meta)),
    );
    let meta = &claim.metadata;
    let body = json!({"metadata": {"resourceVersion": meta.resource_version, "ownerReferences": all}});
    Some(Step::merge(&PERSISTENT_VOLUME_CLAIMS, meta, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(name: &str) -> Meta {
        Meta { name: name.to_owned(), uid: format!("{name}-uid"), ..Meta::default() }
    }

    fn set(scaled: &str, deleted: &str) -> StatefulSet {
        let policy = json!({"whenScaled": scaled, "whenDeleted": deleted});
        let spec = json!({"persistentVolumeClaimRetentionPolicy": policy});
        serde_json::from_value(json!({"metadata": meta("web"), "spec": spec})).unwrap()
    }

    fn claim(owners: &[OwnerReference]) -> Arc<Claim> {
        let metadata = Meta { owner_references: owners.to_vec(), ..meta("data-web-1") };
        Arc::new(Claim { metadata, ..Claim::default() })
    }

    fn owners(set: &StatefulSet, inside: bool, claim: &Arc<Claim>) -> Option<Vec<String>> {
        let Some(Step::Patch { patch: copepod_client::Patch::Merge(body), .. }) =
            plan_owner(set, &meta("web-1"), inside, claim)
        else {
            return None;
        };
        let list = body["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        Some(list.iter().map(|r| r["kind"].as_str().unwrap_or_default().to_owned()).collect())
    }

    #[test]
    fn claims_belong_to_whoever_takes_them_along() {
        let free = claim(&[]);
        assert_eq!(owners(&set("Retain", "Retain"), true, &free), None);
        assert_eq!(owners(&set("Retain", "Delete"), true, &free), Some(vec!["StatefulSet".to_owned()]));
        assert_eq!(owners(&set("Delete", "Retain"), true, &free), None);
        assert_eq!(owners(&set("Delete", "Retain"), false, &free), Some(vec!["Pod".to_owned()]));
        let both = set("Delete", "Delete");
        let by_set = claim(&[controller_reference(&STATEFUL_SETS, &both.metadata)]);
        assert_eq!(owners(&both, true, &by_set), None);
        assert_eq!(owners(&both, false, &by_set), Some(vec!["Pod".to_owned()]));
        let retain = set("Retain", "Retain");
        assert_eq!(owners(&retain, true, &by_set), Some(Vec::new()), "let go again");
        let gone = OwnerReference { uid: "older".to_owned(), ..controller_reference(&PODS, &meta("web-1")) };
        assert_eq!(
            owners(&both, true, &claim(std::slice::from_ref(&gone))),
            None,
            "left to the garbage collector"
        );
        assert!(stale(&both, &claim(&[gone]), "web-1"));
    }
}
