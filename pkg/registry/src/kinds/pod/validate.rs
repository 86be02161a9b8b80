//! Pods and pod templates: what is wrong with a new one and with a change.

use copepod_api::{FieldError, FieldPath};
use serde_json::Value;

use super::spec::{self, Owner};
use super::{container, diff};
use crate::kinds::at::{At, same};
use crate::kinds::checks::{labels, topology};

pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A new pod.
pub(crate) fn create(pod: &At<'_>) {
    whole(pod);
    let spec = pod.get("spec");
    if !spec.get("ephemeralContainers").is_empty() {
        spec.get("ephemeralContainers").forbidden("cannot be set on create");
    }
    if !spec.get("nodeName").is_empty() && !spec.get("schedulingGates").is_empty() {
        spec.get("nodeName").forbidden("cannot be set until all schedulingGates have been cleared");
    }
}

/// Metadata and spec of any pod.
pub(crate) fn whole(pod: &At<'_>) {
    let spec = pod.get("spec");
    annotations(&pod.at("metadata.annotations"), &spec);
    spec::spec(&spec, Owner { pod_name: Some(pod.at("metadata.name").str()) });
    if spec.get("serviceAccountName").is_empty() {
        let sources = spec.get("volumes").items().flat_map(|v| v.at("projected.sources").items());
        for token in sources.map(|s| s.get("serviceAccountToken")).filter(At::present) {
            token.forbidden("must not be specified when serviceAccountName is not set");
        }
    }
    spec.get("terminationGracePeriodSeconds").not_negative();
    for list in ["containers", "initContainers"] {
        spec.get(list).items().for_each(|c| container::padded_image(&c));
    }
}

fn annotations(at: &At<'_>, spec: &At<'_>) {
    let mirror = at.key(MIRROR);
    if mirror.present() && spec.get("nodeName").is_empty() {
        mirror.invalid("must set spec.nodeName if mirror pod annotation is set");
    }
    let cost = at.key(DELETION_COST);
    if cost.present() && !is_cost(cost.str()) {
        cost.invalid("must be a 32bit integer");
    }
}

/// A 32-bit integer without leading zeros or plus.
fn is_cost(text: &str) -> bool {
    let odd = text.starts_with('+') || (text.len() > 1 && text.trim_start_matches('-').starts_with('0'));
    !odd && text.parse::<i32>().is_ok()
}

/// A pod template: `at` holds `metadata` and `spec`.
pub(crate) fn template(at: &At<'_>) {
    // Upstream files these under the template, without `metadata`.
    let place = |field: &str| at.get(field).holding(&at.get("metadata").get(field));
    labels::labels(&place("labels"));
    labels::annotations(&place("annotations"));
    annotations(&place("annotations"), &at.get("spec"));
    spec::spec(&at.get("spec"), Owner { pod_name: None });
    if !at.at("spec.ephemeralContainers").is_empty() {
        at.at("spec.ephemeralContainers").forbidden("ephemeral containers not allowed in pod template");
    }
}

const UPDATABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// A change of a pod.
pub(crate) fn update(new: &At<'_>, old: &At<'_>) {
    whole(new);
    annotation_changes(new, old);
    let (spec, was) = (new.get("spec"), old.get("spec"));
    for list in ["containers", "initContainers"] {
        let (now, before) = (spec.get(list), was.get(list));
        if now.array().len() != before.array().len() {
            return now.forbidden("pod updates may not add or remove containers");
        }
        for at in now.items() {
            at.get("image").need();
            container::padded_image(&at);
        }
    }
    deadline(&spec.get("activeDeadlineSeconds"), &was.get("activeDeadlineSeconds"));
    tolerations(&spec.get("tolerations"), &was.get("tolerations"));
    gates(&spec.get("schedulingGates"), &was.get("schedulingGates"));
    rest(&spec, &was);
}

/// A change of the annotations that a pod keeps.
pub(crate) fn annotation_changes(new: &At<'_>, old: &At<'_>) {
    let (now, was) = (new.at("metadata.annotations"), old.at("metadata.annotations"));
    let fixed = |key: &str| match key {
        MIRROR => Some("mirror pod annotation"),
        key if key.starts_with("container.apparmor.security.beta.kubernetes.io/") => {
            Some("AppArmor annotations")
        }
        _ => None,
    };
    for (key, value) in was.entries() {
        if let Some(what) = fixed(key).filter(|_| now.key(key).value() != value.value()) {
            now.key(key).forbidden(format!("may not remove or update {what}"));
        }
    }
    for (key, place) in now.entries() {
        if let Some(what) = fixed(key).filter(|_| !was.key(key).present()) {
            place.forbidden(format!("may not add {what}"));
        }
    }
    annotations(&now, &new.get("spec"));
}

fn deadline(now: &At<'_>, was: &At<'_>) {
    match (now.int(), was.int()) {
        (Some(n), before) => {
            if !(0..=i64::from(i32::MAX)).contains(&n) {
                now.invalid(format!("must be between 0 and {}, inclusive", i32::MAX));
            }
            if before.is_some_and(|before| before < n) {
                now.invalid("must be less than or equal to previous value");
            }
        }
        (None, Some(_)) => {
            now.invalid_as(Value::Null, "must not update from a positive integer to nil value")
        }
        (None, None) => {}
    }
}

fn without(value: &Value, field: &str) -> Value {
    let mut copy = value.clone();
    if let Some(map) = copy.as_object_mut() {
        map.remove(field);
    }
    copy
}

fn tolerations(now: &At<'_>, was: &At<'_>) {
    for old in was.array() {
        let kept = |new: &&Value| without(new, "tolerationSeconds") == without(old, "tolerationSeconds");
        if !now.array().iter().any(|new| kept(&new)) {
            now.forbidden("existing toleration can not be modified except its tolerationSeconds");
        }
    }
    topology::tolerations(now);
}

fn gates(now: &At<'_>, was: &At<'_>) {
    let known: Vec<&str> = was.items().map(|g| g.get("name").str()).collect();
    for gate in now.items().filter(|g| !known.contains(&g.get("name").str())) {
        gate.get("name").forbidden(format!(
            "only deletion is allowed, but found new scheduling gate '{}'",
            gate.get("name").str()
        ));
    }
}

/// Whatever else changed is refused: the old spec with the changeable parts of the new one must be the new one.
fn rest(spec: &At<'_>, was: &At<'_>) {
    let (Some(new), Some(old)) = (spec.value(), was.value()) else { return };
    let mut munged = new.clone();
    for list in ["containers", "initContainers"] {
        let images: Vec<Option<Value>> =
            was.get(list).array().iter().map(|c| c.get("image").cloned()).collect();
        let containers = munged.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, image) in containers.zip(images) {
            restore(container, "image", image);
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        restore(&mut munged, field, old.get(field).cloned());
    }
    let grace = "terminationGracePeriodSeconds";
    if was.get(grace).int().is_some_and(|n| n < 0) && spec.get(grace).int() == Some(1) {
        restore(&mut munged, grace, old.get(grace).cloned());
    }
    if !was.get("schedulingGates").is_empty() {
        super::gated::changes(spec, was, &mut munged);
    }
    if !same(Some(&munged), Some(old)) {
        spec.forbidden(format!("{UPDATABLE}\n{}", diff::render(old, &munged)));
    }
}

/// Puts an old field back.
pub(crate) fn restore(into: &mut Value, field: &str, value: Option<Value>) {
    let Some(map) = into.as_object_mut() else { return };
    match value {
        Some(value) => drop(map.insert(field.to_owned(), value)),
        None => drop(map.remove(field)),
    }
}

/// A change of a pod's status.
pub(crate) fn status(new: &At<'_>, old: &At<'_>) {
    annotation_changes(new, old);
    let (status, was) = (new.get("status"), old.get("status"));
    if old.at("spec.nodeName").str() != new.at("spec.nodeName").str() {
        status.get("nodeName").forbidden("may not be changed directly");
    }
    let nominated = status.get("nominatedNodeName");
    if !nominated.is_empty() {
        nominated.text(copepod_api::names::dns1123_subdomain);
    }
    if !old.at("spec.nodeName").is_empty()
        && !nominated.is_empty()
        && nominated.str() != was.get("nominatedNodeName").str()
    {
        nominated.forbidden("may not be set on pods that are already bound to a node");
    }
    if !was.get("qosClass").is_empty() {
        status.get("qosClass").immutable(&was.get("qosClass"));
    }
    for list in ["containerStatuses", "initContainerStatuses"] {
        transitions(&status.get(list), &was.get(list), &new.get("spec"));
    }
    let mut seen = std::collections::HashSet::new();
    for condition in status.get("conditions").items() {
        labels::key(&condition.get("type"));
        seen.insert(condition.get("type").str());
    }
    ips(&status);
}

fn ips(status: &At<'_>) {
    let list = status.get("podIPs");
    let entries: Vec<At<'_>> = list.items().collect();
    for entry in &entries {
        crate::kinds::checks::ip::address(&entry.holding(&entry.get("ip")), &[]);
    }
    let families = |v6: bool| entries.iter().filter(|e| e.get("ip").str().contains(':') == v6).count();
    if families(true) > 1 || families(false) > 1 {
        list.invalid("may specify no more than one IP for each IP family");
    }
}

/// What has terminated for good does not come back.
fn transitions(now: &At<'_>, was: &At<'_>, spec: &At<'_>) {
    let policy = spec.get("restartPolicy").str();
    let rules = ["containers", "initContainers"]
        .iter()
        .flat_map(|l| spec.get(l).items())
        .any(|c| c.get("restartPolicy").present() || !c.get("restartPolicyRules").is_empty());
    if policy == "Always" || rules {
        return;
    }
    for (i, old) in was.items().enumerate() {
        let ended = old.at("state.terminated");
        let failed = ended.get("exitCode").int().unwrap_or(0) != 0;
        if !ended.present() || (failed && policy == "OnFailure") {
            continue;
        }
        let back =
            |new: &At<'_>| new.is("name", old.get("name").str()) && !new.at("state.terminated").present();
        if now.items().any(|new| back(&new)) {
            let path: FieldPath = now.path().index(i).child("state");
            now.push(FieldError::forbidden(&path, "may not be transitioned to non-terminated state"));
        }
    }
}
