//! What the server sets in a pod on its way to storage.

use serde_json::{Value, json};

use super::resources;
use crate::hooks::HookContext;
use crate::kinds::defaults::{Object, map_mut};

/// A new pod: pending, with its quality of service.
pub(crate) fn create(_cx: &HookContext<'_>, pod: &mut Value) {
    let labels = pod.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default();
    let annotations =
        pod.pointer("/metadata/annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    let Some(object) = pod.as_object_mut() else { return };
    let spec = map_mut(object, "spec");
    merge_label_keys(spec, &labels);
    app_armor(spec, &annotations);
    resources::default_pod_level(spec);
    let gated = spec.get("schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty());
    let spec = Value::Object(spec.clone());
    let mut status = json!({"phase": "Pending"});
    if gated {
        status["conditions"] = json!([{
            "lastProbeTime": null, "lastTransitionTime": null,
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    status["qosClass"] = resources::qos_class(&spec).into();
    object.insert("status".to_owned(), status);
}

/// AppArmor profiles that annotations name go to the containers that have none.
fn app_armor(spec: &mut Object, annotations: &Object) {
    if spec.get("os").and_then(|os| os.get("name")).is_some_and(|name| name == "windows") {
        return;
    }
    let whole = spec.get("securityContext").and_then(|c| c.get("appArmorProfile")).cloned();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            let annotation = annotations.get(&format!("{}{name}", super::APP_ARMOR)).and_then(Value::as_str);
            let profile = annotation.and_then(super::app_armor_profile);
            let has = container.pointer("/securityContext/appArmorProfile").is_some();
            if let (Some(profile), Some(container)) = (profile, container.as_object_mut())
                && !has
                && whole.as_ref() != Some(&profile)
            {
                map_mut(container, "securityContext").insert("appArmorProfile".to_owned(), profile);
            }
        }
    }
}

/// `matchLabelKeys` become plain terms of the selectors beside them.
fn merge_label_keys(spec: &mut Object, labels: &Object) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|a| a.get_mut(kind)) else { continue };
        let lists = [
            ("preferredDuringSchedulingIgnoredDuringExecution", Some("podAffinityTerm")),
            ("requiredDuringSchedulingIgnoredDuringExecution", None),
        ];
        for (list, inner) in lists {
            for term in affinity.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                let term = match inner {
                    Some(inner) => term.get_mut(inner),
                    None => Some(term),
                };
                if let Some(term) = term {
                    merge_keys(term, "matchLabelKeys", "In", labels);
                    merge_keys(term, "mismatchLabelKeys", "NotIn", labels);
                }
            }
        }
    }
    let spread = spec.get_mut("topologySpreadConstraints").and_then(Value::as_array_mut);
    spread.into_iter().flatten().for_each(|c| merge_keys(c, "matchLabelKeys", "In", labels));
}

fn merge_keys(term: &mut Value, field: &str, operator: &str, labels: &Object) {
    let keys: Vec<String> = strings(term.get(field));
    let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut) else { return };
    for key in keys {
        let Some(value) = labels.get(&key) else { continue };
        let terms = selector.entry("matchExpressions").or_insert_with(|| json!([]));
        if let Some(terms) = terms.as_array_mut() {
            terms.push(json!({"key": key, "operator": operator, "values": [value]}));
        }
    }
}

fn strings(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// An update of the pod, or of the part that a subresource may change.
pub(crate) fn update(cx: &HookContext<'_>, new: &mut Value, old: &Value) {
    match cx.subresource {
        Some("ephemeralcontainers") => {
            let kept = new.pointer("/spec/ephemeralContainers").cloned();
            keep_all(new, old);
            set_or_remove(new, "ephemeralContainers", kept);
        }
        Some("resize") => resize(new, old),
        _ => {}
    }
    let had = old.pointer("/spec/resources");
    if new.pointer("/spec/resources").is_none()
        && let Some(had) = had
    {
        set_or_remove(new, "resources", Some(had.clone()));
    }
}

/// A resize changes resources and resize policies of the containers, nothing else.
fn resize(new: &mut Value, old: &Value) {
    let wanted = new.clone();
    let lists = ["containers", "initContainers"];
    let list = |pod: &Value, field: &str| {
        pod.pointer(&format!("/spec/{field}")).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    if lists.iter().any(|l| list(&wanted, l).len() != list(old, l).len()) {
        return;
    }
    keep_all(new, old);
    set_or_remove(new, "resources", wanted.pointer("/spec/resources").cloned());
    for field in lists {
        let (mut merged, wanted) = (list(old, field), list(&wanted, field));
        if merged.iter().zip(&wanted).any(|(a, b)| a.get("name") != b.get("name")) {
            set_or_remove(new, field, Some(wanted.into()));
            continue;
        }
        for (to, from) in merged.iter_mut().zip(&wanted) {
            for part in ["resources", "resizePolicy"] {
                match (to.as_object_mut(), from.get(part)) {
                    (Some(to), Some(value)) => drop(to.insert(part.to_owned(), value.clone())),
                    (Some(to), None) => drop(to.remove(part)),
                    (None, _) => {}
                }
            }
        }
        if !merged.is_empty() {
            set_or_remove(new, field, Some(merged.into()));
        }
    }
    if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut)
        && spec.contains_key("resources")
    {
        resources::default_pod_level(spec);
    }
}

/// Everything but system metadata comes from `old`.
fn keep_all(new: &mut Value, old: &Value) {
    for part in ["spec", "status"] {
        if let Some(value) = old.get(part) {
            new[part] = value.clone();
        }
    }
    for part in ["labels", "annotations", "ownerReferences", "finalizers", "deletionTimestamp"] {
        let value = old.get("metadata").and_then(|m| m.get(part)).cloned();
        let metadata = copepod_api::meta::metadata_mut(new);
        match value {
            Some(value) => drop(metadata.insert(part.to_owned(), value)),
            None => drop(metadata.remove(part)),
        }
    }
}

fn set_or_remove(pod: &mut Value, field: &str, value: Option<Value>) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    match value {
        Some(value) => drop(spec.insert(field.to_owned(), value)),
        None => drop(spec.remove(field)),
    }
}

/// A status update keeps what old clients drop.
pub(crate) fn status(_cx: &HookContext<'_>, new: &mut Value, old: &Value) {
    let owners = old.pointer("/metadata/ownerReferences").cloned();
    let metadata = copepod_api::meta::metadata_mut(new);
    match owners {
        Some(owners) => drop(metadata.insert("ownerReferences".to_owned(), owners)),
        None => drop(metadata.remove("ownerReferences")),
    }
    let Some(was) = old.get("status") else { return };
    let Some(object) = new.as_object_mut() else { return };
    let status = map_mut(object, "status");
    let kept = [
        "qosClass",
        "resourceClaimStatuses",
        "extendedResourceClaimStatus",
        "nodeAllocatableResourceClaimStatuses",
        "observedGeneration",
    ];
    for field in kept {
        if let Some(value) = was.get(field) {
            crate::kinds::defaults::fill(status, field, value.clone());
        }
    }
    keep_condition_generations(status, was);
}

fn keep_condition_generations(status: &mut Object, was: &Value) {
    let mut old: Vec<&Value> =
        was.get("conditions").and_then(Value::as_array).into_iter().flatten().collect();
    for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(at) = old.iter().position(|o| o.get("type") == condition.get("type")) else { continue };
        let earlier = old.remove(at).get("observedGeneration");
        if let (Some(earlier), Some(condition)) = (earlier, condition.as_object_mut()) {
            crate::kinds::defaults::fill(condition, "observedGeneration", earlier.clone());
        }
    }
}

/// The grace period: as asked, else the pod's own; none before it is scheduled or after it has ended.
pub(crate) fn grace(pod: &Value, requested: Option<i64>) -> Option<i64> {
    let own = pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    let period = requested.unwrap_or(own);
    let scheduled = pod.pointer("/spec/nodeName").and_then(Value::as_str).is_some_and(|n| !n.is_empty());
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if !scheduled || matches!(phase, "Failed" | "Succeeded") {
        return Some(0);
    }
    Some(if period < 0 { 1 } else { period })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cx(subresource: Option<&str>) -> HookContext<'_> {
        HookContext { user: crate::kinds::anyone(), subresource, now: jiff::Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn a_new_pod_is_pending_with_its_class() {
        let mut pod =
            json!({"spec": {"containers": [{"name": "a"}]}, "status": {"phase": "Running", "podIP": "x"}});
        create(&cx(None), &mut pod);
        assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    }

    #[test]
    fn a_resize_changes_resources_only() {
        let old =
            json!({"metadata": {}, "spec": {"nodeName": "n", "containers": [{"name": "a", "image": "x"}]}});
        let mut new = json!({"metadata": {}, "spec": {"nodeName": "other", "containers": [
            {"name": "a", "image": "y", "resources": {"requests": {"cpu": "1"}}}]}});
        update(&cx(Some("resize")), &mut new, &old);
        assert_eq!(
            new["spec"],
            json!({"nodeName": "n", "containers": [
                {"name": "a", "image": "x", "resources": {"requests": {"cpu": "1"}}}]})
        );
    }

    #[test]
    fn grace_periods() {
        let pod = json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}});
        assert_eq!(grace(&pod, None), Some(30));
        assert_eq!(grace(&pod, Some(-1)), Some(1));
        assert_eq!(grace(&json!({"spec": {"terminationGracePeriodSeconds": 30}}), None), Some(0));
    }
}
