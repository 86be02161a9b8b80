//! What becomes of a claim. Pure.

use std::sync::Arc;

use copepod_client::EventKind::{Normal, Warning};
use copepod_client::resources::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use copepod_storage::{BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, best, refusal};
use serde_json::{Map, Value, json};

use super::{Plan, World};
use crate::step::Step;
use crate::views::{Claim, PersistentVolume, StorageClass};

/// Before a volume was grown its file system had this size.
const PRE_RESIZE: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
const PROVISIONERS: [&str; 2] =
    ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];

/// Decides about a claim.
pub(super) fn plan(claim: &Claim, world: &World) -> Plan {
    let mut plan = Plan::default();
    if claim.metadata.annotation(BIND_COMPLETED).is_some() {
        keep(claim, world, &mut plan);
    } else if claim.spec.volume_name.is_empty() {
        find(claim, world, &mut plan);
    } else {
        take(claim, world, &mut plan);
    }
    plan
}

fn named<'a>(world: &'a World, name: &str) -> Option<&'a Arc<PersistentVolume>> {
    world.volumes.iter().find(|volume| volume.metadata.name == name)
}

/// A claim that was bound before.
fn keep(claim: &Claim, world: &World, plan: &mut Plan) {
    let lost = |plan: &mut Plan, reason, message: &str| {
        if &*claim.status.phase != "Lost" {
            plan.steps.extend(status(claim, "Lost", None));
            plan.tell_claim(claim, Warning, reason, message);
        }
    };
    if claim.spec.volume_name.is_empty() {
        let text = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
        return lost(plan, "ClaimLost", text);
    }
    let Some(volume) = named(world, &claim.spec.volume_name) else {
        let text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
        return lost(plan, "ClaimLost", text);
    };
    match &volume.spec.claim_ref {
        Some(owner) if owner.uid != claim.metadata.uid => {
            let text = "Two claims are bound to the same volume, this one is bound incorrectly";
            lost(plan, "ClaimMisbound", text);
        }
        _ => bind(claim, volume, plan),
    }
}

/// A claim that takes any volume that fits.
fn find(claim: &Claim, world: &World, plan: &mut Plan) {
    let class = world.classes.iter().find(|class| class.metadata.name == claim.class());
    let waits = class.is_some_and(|class| class.waits());
    if let Some(volume) = best(claim, &world.volumes, |_| !waits, |_| true) {
        return bind(claim, &volume, plan);
    }
    if !claim.names_class()
        && let Some(class) = default_class(&world.classes)
    {
        let spec = json!({"storageClassName": class.metadata.name});
        plan.steps.push(insist(claim, json!({"spec": spec})));
        return;
    }
    if waits && claim.metadata.annotation(SELECTED_NODE).is_none() {
        let (reason, message) = match world.waiting.as_slice() {
            [] => {
                ("WaitForFirstConsumer", "waiting for first consumer to be created before binding".to_owned())
            }
            [one] => ("WaitForPodScheduled", format!("waiting for pod {one} to be scheduled")),
            all => ("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", all.join(","))),
        };
        plan.tell_claim(claim, Normal, reason, message);
    } else if !claim.class().is_empty() {
        return provision(claim, class.map(AsRef::as_ref), plan);
    } else {
        let text = "no persistent volumes available for this claim and no storage class is set";
        plan.tell_claim(claim, Normal, "FailedBinding", text);
    }
    plan.steps.extend(status(claim, "Pending", None));
}

/// The newest of the default classes; of those made at once the first by name.
fn default_class(classes: &[Arc<StorageClass>]) -> Option<&Arc<StorageClass>> {
    let defaults = classes.iter().filter(|class| class.is_default());
    defaults.min_by_key(|class| {
        let meta = &class.metadata;
        (std::cmp::Reverse(meta.creation_timestamp), meta.name.clone())
    })
}

/// Names the provisioner, which waits for that.
fn provision(claim: &Claim, class: Option<&StorageClass>, plan: &mut Plan) {
    let failed = |plan: &mut Plan, why: String| plan.tell_claim(claim, Warning, "ProvisioningFailed", why);
    let Some(class) = class else {
        return failed(plan, format!("storageclass.storage.k8s.io {:?} not found", claim.class()));
    };
    let provisioner = &*class.provisioner;
    if provisioner.starts_with("kubernetes.io/") {
        return failed(plan, format!("no volume plugin matched name: {provisioner}"));
    }
    if PROVISIONERS.iter().any(|key| claim.metadata.annotation(key) != Some(provisioner)) {
        let annotations: Map<_, _> =
            PROVISIONERS.iter().map(|key| ((*key).to_owned(), Value::from(provisioner))).collect();
        plan.steps.push(insist(claim, json!({"metadata": {"annotations": annotations}})));
    }
    let text = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
    );
    plan.tell_claim(claim, Normal, "ExternalProvisioning", text);
}

/// A claim that names its volume.
fn take(claim: &Claim, world: &World, plan: &mut Plan) {
    let Some(volume) = named(world, &claim.spec.volume_name) else {
        plan.steps.extend(status(claim, "Pending", None));
        return;
    };
    if volume.spec.claim_ref.is_none() {
        match refusal(claim, volume) {
            Some(why) => {
                let text = format!("Cannot bind to requested volume {:?}: {why}", volume.metadata.name);
                plan.tell_claim(claim, Warning, "VolumeMismatch", text);
                plan.steps.extend(status(claim, "Pending", None));
            }
            None => bind(claim, volume, plan),
        }
    } else if volume.belongs_to(claim) {
        bind(claim, volume, plan);
    } else {
        let text = format!("volume {:?} already bound to a different claim.", volume.metadata.name);
        plan.tell_claim(claim, Warning, "FailedBinding", text);
        if claim.metadata.annotation(BOUND_BY_CONTROLLER).is_none() {
            plan.steps.extend(status(claim, "Pending", None));
        }
    }
}

/// Both sides: the volume and its phase first, so that nobody else takes it.
fn bind(claim: &Claim, volume: &PersistentVolume, plan: &mut Plan) {
    let Some(size) = volume.size() else { return };
    let (owner, meta) = (&claim.metadata, &volume.metadata);
    let complete =
        volume.spec.claim_ref.as_ref().is_some_and(|r| r.uid == owner.uid && volume.belongs_to(claim));
    let ours = !volume.belongs_to(claim);
    let mark = ours && meta.annotation(BOUND_BY_CONTROLLER).is_none();
    if !complete || mark {
        let reference = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": owner.namespace, "name": owner.name,
            "uid": owner.uid, "resourceVersion": owner.resource_version,
        });
        let mut body =
            json!({"metadata": {"resourceVersion": meta.resource_version}, "spec": {"claimRef": reference}});
        if mark {
            body["metadata"]["annotations"] = json!({BOUND_BY_CONTROLLER: "yes"});
        }
        plan.steps.push(Step::merge(&PERSISTENT_VOLUMES, meta, body));
    }
    if &*volume.status.phase != "Bound" {
        plan.steps.push(Step::status(&PERSISTENT_VOLUMES, meta, json!({"phase": "Bound"})));
    }
    let mut annotations = Map::new();
    let mut spec = Map::new();
    if claim.spec.volume_name != meta.name {
        spec.insert("volumeName".to_owned(), json!(meta.name));
        if owner.annotation(BOUND_BY_CONTROLLER).is_none() {
            annotations.insert(BOUND_BY_CONTROLLER.to_owned(), json!("yes"));
        }
    }
    if owner.annotation(BIND_COMPLETED).is_none() {
        annotations.insert(BIND_COMPLETED.to_owned(), json!("yes"));
    }
    if !annotations.is_empty() || !spec.is_empty() {
        plan.steps.push(insist(claim, json!({"metadata": {"annotations": annotations}, "spec": spec})));
    }
    plan.steps.extend(status(claim, "Bound", Some((volume, size))));
}

/// A patch of the claim as it was seen.
fn insist(claim: &Claim, mut body: Value) -> Step {
    body["metadata"]["resourceVersion"] = json!(claim.metadata.resource_version);
    Step::merge(&PERSISTENT_VOLUME_CLAIMS, &claim.metadata, body)
}

/// The status of a claim in a phase, if it differs.
fn status(
    claim: &Claim,
    phase: &str,
    bound: Option<(&PersistentVolume, copepod_api::Quantity)>,
) -> Option<Step> {
    let old = &claim.status;
    let entering = &*old.phase != phase;
    let mut new = Map::new();
    let mut set = |key: &str, value: Value| drop(new.insert(key.to_owned(), value));
    if entering {
        set("phase", json!(phase));
    }
    match bound {
        None => {
            let present = [
                ("accessModes", old.access_modes.is_some()),
                ("capacity", old.capacity.is_some()),
                ("currentVolumeAttributesClassName", old.current_volume_attributes_class_name.is_some()),
            ];
            present.into_iter().filter(|(_, there)| *there).for_each(|(key, _)| set(key, Value::Null));
        }
        Some((volume, size)) => {
            let modes = &volume.spec.access_modes;
            if old.access_modes.as_deref().unwrap_or_default() != modes.as_slice() {
                set("accessModes", json!(modes));
            }
            // Later a difference may be meant: a file system can be smaller than its device.
            if entering {
                let known = old.capacity.as_ref().and_then(|c| c.get("storage"));
                if let Some(before) = volume.metadata.annotation(PRE_RESIZE) {
                    let before = before.parse().unwrap_or(size);
                    set("capacity", json!({"storage": before}));
                } else if known != Some(&size) {
                    set("capacity", json!(volume.spec.capacity));
                }
                let class = &volume.spec.volume_attributes_class_name;
                if &*old.phase == "Pending" && *class != old.current_volume_attributes_class_name {
                    set("currentVolumeAttributesClassName", json!(class));
                }
            }
        }
    }
    (!new.is_empty()).then(|| Step::status(&PERSISTENT_VOLUME_CLAIMS, &claim.metadata, Value::Object(new)))
}

#[cfg(test)]
mod tests;
