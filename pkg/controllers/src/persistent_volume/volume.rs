//! What becomes of a volume. Pure.

use copepod_client::EventKind::Warning;
use copepod_client::resources::PERSISTENT_VOLUMES;
use copepod_storage::{BOUND_BY_CONTROLLER, modes_differ};
use serde_json::json;

use super::{PROVISIONED_BY, Plan};
use crate::step::Step;
use crate::views::{Claim, PersistentVolume};

/// Decides about a volume; `claim` is the one it is bound to, if that still is the same.
pub(super) fn plan(volume: &PersistentVolume, claim: Option<&Claim>) -> Plan {
    let mut plan = Plan::default();
    let unbound = volume.spec.claim_ref.as_ref().is_none_or(|owner| owner.uid.is_empty());
    if unbound {
        plan.steps.extend(phase(volume, "Available", ""));
        return plan;
    }
    let Some(claim) = claim else {
        release(volume, &mut plan);
        return plan;
    };
    if claim.spec.volume_name == volume.metadata.name {
        plan.steps.extend(phase(volume, "Bound", ""));
    } else if claim.spec.volume_name.is_empty() {
        if modes_differ(claim, volume) {
            let (v, c) = (&volume.metadata.name, &claim.metadata.name);
            let text = format!(
                "Cannot bind PersistentVolume to requested PersistentVolumeClaim {c:?} due to incompatible volumeMode."
            );
            plan.tell_volume(volume, Warning, "VolumeMismatch", text);
            let text = format!(
                "Cannot bind PersistentVolume {v:?} to requested PersistentVolumeClaim due to incompatible volumeMode."
            );
            plan.tell_claim(claim, Warning, "VolumeMismatch", text);
        } else {
            plan.next = Some(claim.metadata.key());
        }
    } else if volume.metadata.annotation(PROVISIONED_BY).is_some()
        && &*volume.spec.persistent_volume_reclaim_policy == "Delete"
    {
        // It was made for the claim, which got another one.
        release(volume, &mut plan);
    } else {
        unbind(volume, &mut plan);
    }
    plan
}

fn phase(volume: &PersistentVolume, phase: &str, message: &str) -> Option<Step> {
    let message = if message.is_empty() { json!(null) } else { json!(message) };
    let status = json!({"phase": phase, "message": message});
    (&*volume.status.phase != phase).then(|| Step::status(&PERSISTENT_VOLUMES, &volume.metadata, status))
}

/// What we bound becomes free; what a user bound stays meant for its claim.
fn unbind(volume: &PersistentVolume, plan: &mut Plan) {
    let meta = &volume.metadata;
    let mut body = json!({"metadata": {"resourceVersion": meta.resource_version}});
    if meta.annotation(BOUND_BY_CONTROLLER).is_some() {
        body["metadata"]["annotations"] = json!({BOUND_BY_CONTROLLER: null});
        body["spec"] = json!({"claimRef": null});
    } else {
        body["spec"] = json!({"claimRef": {"uid": null}});
    }
    plan.steps.push(Step::merge(&PERSISTENT_VOLUMES, meta, body));
    plan.steps.extend(phase(volume, "Available", ""));
}

/// Its claim is gone. A failure that was told before stays visible while it is tried again.
fn release(volume: &PersistentVolume, plan: &mut Plan) {
    if &*volume.status.phase != "Failed" {
        plan.steps.extend(phase(volume, "Released", ""));
    }
    let failed = |plan: &mut Plan, reason, why: &str| {
        if let Some(step) = phase(volume, "Failed", why) {
            plan.steps.push(step);
            plan.tell_volume(volume, Warning, reason, why);
        }
    };
    match &*volume.spec.persistent_volume_reclaim_policy {
        "Retain" => {}
        "Recycle" => failed(plan, "VolumeFailedRecycle", "No recycler plugin found for the volume!"),
        "Delete" => match deleter(volume) {
            Ok(Some(path)) if !volume.metadata.deleting() => {
                plan.remove = Some(path.into());
                plan.steps.push(Step::delete(&PERSISTENT_VOLUMES, &volume.metadata));
            }
            Ok(_) => {}
            Err(why) => failed(plan, "VolumeFailedDelete", &why),
        },
        _ => failed(
            plan,
            "VolumeUnknownReclaimPolicy",
            "Volume has unrecognized PersistentVolumeReclaimPolicy",
        ),
    }
}

/// The directory to delete; `None` when the driver that made the volume deletes it.
fn deleter(volume: &PersistentVolume) -> Result<Option<&str>, String> {
    const NONE: &str = "no deletable volume plugin matched";
    let made_by = volume.metadata.annotation(PROVISIONED_BY).filter(|by| !by.is_empty());
    if volume.spec.csi.is_some() || made_by.is_some_and(|by| !by.starts_with("kubernetes.io/")) {
        return Ok(None);
    }
    let Some(host) = &volume.spec.host_path else {
        let name = &volume.metadata.name;
        return Err(match made_by {
            Some(_) => NONE.to_owned(),
            None => format!("error getting deleter volume plugin for volume {name:?}: {NONE}"),
        });
    };
    if host.path.strip_prefix("/tmp/").is_none_or(str::is_empty) {
        return Err(format!("host_path deleter only supports /tmp/.+ but received provided {}", host.path));
    }
    Ok(Some(&host.path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn volume(policy: &str, source: Value, annotations: Value) -> PersistentVolume {
        let mut body = json!({
            "metadata": {"name": "v", "resourceVersion": "5", "annotations": annotations},
            "spec": {"persistentVolumeReclaimPolicy": policy, "claimRef": {"namespace": "ns", "name": "c", "uid": "cu"}},
            "status": {"phase": "Bound"},
        });
        copepod_client::apply_merge(&mut body["spec"], &source);
        serde_json::from_value(body).unwrap()
    }

    fn claim(volume: &str) -> Claim {
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "c", "uid": "cu"}, "spec": {"volumeName": volume}}))
            .unwrap()
    }

    fn text(plan: &Plan) -> String {
        format!("{:?}", plan.steps)
    }

    #[test]
    fn reclaiming_follows_the_policy() {
        let csi = json!({"csi": {"driver": "d", "volumeHandle": "h"}});
        for policy in ["Retain", "Delete"] {
            let left = plan(&volume(policy, csi.clone(), json!({})), None);
            assert!(left.steps.len() == 1 && text(&left).contains("Released"), "{policy}: {left:?}");
        }
        let tmp = plan(&volume("Delete", json!({"hostPath": {"path": "/tmp/x"}}), json!({})), None);
        assert!(text(&tmp).contains("Delete {") && tmp.remove.is_some());
        let etc = plan(&volume("Delete", json!({"hostPath": {"path": "/etc"}}), json!({})), None);
        assert_eq!(etc.events[0].3, "host_path deleter only supports /tmp/.+ but received provided /etc");
        let nfs = plan(&volume("Delete", json!({}), json!({})), None);
        assert_eq!(
            nfs.events[0].3,
            "error getting deleter volume plugin for volume \"v\": no deletable volume plugin matched"
        );
    }

    #[test]
    fn a_claim_that_got_another_volume_sets_this_one_free() {
        let ours = volume("Retain", json!({}), json!({BOUND_BY_CONTROLLER: "yes"}));
        let freed = plan(&ours, Some(&claim("other")));
        assert!(text(&freed).contains("\"claimRef\": Null") && text(&freed).contains("Available"));
        let theirs = volume("Retain", json!({}), json!({}));
        let freed = plan(&theirs, Some(&claim("other")));
        assert!(text(&freed).contains("\"uid\": Null"));
        assert!(plan(&theirs, Some(&claim("v"))).steps.is_empty());
        assert!(plan(&theirs, Some(&claim(""))).next.is_some());
    }
}
