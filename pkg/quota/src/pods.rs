//! Pods: what they use, which scopes they are in, and what their containers have to say.

use std::collections::{BTreeMap, BTreeSet};

use copepod_api::{Quantity, meta, names};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::resources::{View, What, is_best_effort, of_pod, of_whole_pod};
use crate::{Amounts, Term};

const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";
/// A quota on one of these obliges every container to name an amount.
const OBLIGING: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

fn native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether pods count under `name`.
pub(crate) fn counts(name: &str) -> bool {
    let plain = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
    if matches!(name, "pods" | "count/pods") || COMPUTE.contains(&plain) {
        return true;
    }
    let request = name.strip_prefix("requests.");
    request.unwrap_or(name).starts_with("hugepages-")
        || request.is_some_and(|rest| !native(name) || rest.starts_with(DEVICE_CLASS))
}

/// Whether an amount of a container counts as an extended resource.
fn extended(name: &str) -> bool {
    let plain = !native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty();
    plain || name.starts_with(DEVICE_CLASS)
}

/// Requests and limits under the names that quotas have for them.
fn named(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut all = Amounts::default();
    all.set("pods", Quantity::from_units(1));
    for name in COMPUTE {
        if let Some(amount) = requests.get(name) {
            all.set(name, amount);
            all.set(format!("requests.{name}"), amount);
        }
        if let Some(amount) = limits.get(name) {
            all.set(format!("limits.{name}"), amount);
        }
    }
    for (name, amount) in &requests.0 {
        if name.starts_with("hugepages-") {
            all.set(name.as_str(), *amount);
            all.set(format!("requests.{name}"), *amount);
        }
        if extended(name) {
            all.set(format!("requests.{name}"), *amount);
        }
    }
    all
}

/// Whether all containers of a pod have ended for good.
#[must_use]
pub(crate) fn has_ended(pod: &Value) -> bool {
    matches!(pod.pointer("/status/phase").and_then(Value::as_str), Some("Failed" | "Succeeded"))
}

/// Whether a pod still uses something: it has not ended, and it is not stuck on its way out.
#[must_use]
pub(crate) fn lives(pod: &Value, now: Timestamp) -> bool {
    if has_ended(pod) {
        return false;
    }
    let deleted = meta::deletion_timestamp(pod).and_then(|at| at.parse::<Timestamp>().ok());
    let grace = pod.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    deleted.zip(grace).is_none_or(|(at, grace)| now <= at + SignedDuration::from_secs(grace))
}

/// What one pod uses.
pub(crate) fn usage(pod: &Value, now: Timestamp) -> Amounts {
    let mut used = Amounts::default();
    used.set("count/pods", Quantity::from_units(1));
    if lives(pod, now) {
        let requests = of_pod(pod, What::Requests, View::Effective);
        let limits = of_pod(pod, What::Limits, View::Effective);
        used.add(&named(&requests, &limits));
    }
    used
}

/// Whether a pod ends by itself after a time.
#[must_use]
pub(crate) fn is_terminating(pod: &Value) -> bool {
    pod.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds >= 0)
}

/// Whether a pod is in a scope.
pub(crate) fn in_scope(term: &Term, pod: &Value) -> bool {
    match term.scope.as_str() {
        "Terminating" => is_terminating(pod),
        "NotTerminating" => !is_terminating(pod),
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => {
            let class = pod.pointer("/spec/priorityClassName").and_then(Value::as_str);
            let names: Vec<&str> = class.into_iter().filter(|name| !name.is_empty()).collect();
            term.names(&names)
        }
        "CrossNamespacePodAffinity" => looks_into_other_namespaces(pod),
        _ => false,
    }
}

fn looks_into_other_namespaces(pod: &Value) -> bool {
    let kinds = ["podAffinity", "podAntiAffinity"].map(|kind| &pod["spec"]["affinity"][kind]);
    let rules =
        ["requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"];
    let terms =
        kinds.iter().flat_map(|kind| rules.iter().filter_map(|rule| kind[*rule].as_array())).flatten();
    terms.map(|term| term.get("podAffinityTerm").unwrap_or(term)).any(|term| {
        let named = term["namespaces"].as_array().is_some_and(|list| !list.is_empty());
        named || term.get("namespaceSelector").is_some_and(|selector| !selector.is_null())
    })
}

/// Refuses a pod whose containers leave out what a quota obliges them to say.
pub(crate) fn constraints(required: &[&str], pod: &Value) -> Result<(), String> {
    if of_whole_pod(pod) {
        return Ok(());
    }
    let required: BTreeSet<&str> = required.iter().copied().filter(|name| OBLIGING.contains(name)).collect();
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array().into_iter().flatten() {
            let amounts = |what: &str| Amounts::read(container.get("resources").and_then(|r| r.get(what)));
            let said = named(&amounts("requests"), &amounts("limits"));
            for name in required.iter().filter(|name| said.get(name).is_none()) {
                missing.entry(name).or_default().insert(container["name"].as_str().unwrap_or_default());
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let texts: Vec<_> = missing
        .into_iter()
        .map(|(name, containers)| {
            format!("{name} for: {}", containers.into_iter().collect::<Vec<_>>().join(","))
        })
        .collect();
    Err(format!("must specify {}", texts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_and_amounts() {
        for name in [
            "cpu",
            "limits.memory",
            "requests.ephemeral-storage",
            "pods",
            "count/pods",
            "hugepages-2Mi",
            "requests.hugepages-2Mi",
            "requests.example.com/gpu",
            "requests.deviceclass.resource.kubernetes.io/x",
        ] {
            assert!(counts(name), "{name}");
        }
        for name in
            ["example.com/gpu", "requests.storage", "count/secrets", "services", "limits.hugepages-2Mi"]
        {
            assert!(!counts(name), "{name}");
        }
        let pod = json!({"spec": {"containers": [{"name": "a", "resources": {
            "requests": {"cpu": "1", "example.com/gpu": "2"}, "limits": {"memory": "1Gi"}}}]}});
        assert_eq!(
            usage(&pod, Timestamp::UNIX_EPOCH).shown(),
            "count/pods=1,cpu=1,limits.memory=1Gi,pods=1,requests.cpu=1,requests.example.com/gpu=2"
        );
    }

    #[test]
    fn what_has_to_be_said() {
        let pod = json!({"spec": {"containers": [{"name": "b"}, {"name": "a", "resources": {"requests": {"cpu": "1"}}}]}});
        assert_eq!(
            constraints(&["cpu", "limits.memory", "pods"], &pod).unwrap_err(),
            "must specify cpu for: b; limits.memory for: a,b"
        );
    }

    #[test]
    fn scopes_of_pods() {
        let term = |scope: &str, operator: &str, values: &[&str]| Term {
            scope: scope.to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(|v| (*v).to_owned()).collect(),
        };
        let pod = json!({"spec": {"priorityClassName": "high", "activeDeadlineSeconds": 5, "containers": [{"name": "a"}],
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": {"namespaceSelector": {}}}]}}}});
        for (scope, inside) in [
            ("Terminating", true),
            ("NotTerminating", false),
            ("BestEffort", true),
            ("NotBestEffort", false),
            ("CrossNamespacePodAffinity", true),
            ("PriorityClass", true),
        ] {
            assert_eq!(in_scope(&term(scope, "Exists", &[]), &pod), inside, "{scope}");
        }
        assert!(in_scope(&term("PriorityClass", "In", &["low", "high"]), &pod));
        assert!(!in_scope(&term("PriorityClass", "NotIn", &["high"]), &pod));
        assert!(!in_scope(&term("PriorityClass", "DoesNotExist", &[]), &pod));
    }

    #[test]
    fn the_ended_and_the_stuck_count_only_as_objects() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let stuck = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}});
        assert_eq!(usage(&stuck, now).shown(), "count/pods=1");
        assert_eq!(usage(&json!({"status": {"phase": "Failed"}}), now).shown(), "count/pods=1");
    }
}
