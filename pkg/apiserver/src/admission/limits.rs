//! The bounds of a LimitRange, checked with upstream's texts.

use std::collections::BTreeMap;

use copepod_api::Quantity;
use copepod_quota::resources::{View, What, of_pod};
use serde_json::Value;

use super::{items, text};

type Amounts = BTreeMap<String, Quantity>;

fn amounts(value: Option<&Value>) -> Amounts {
    let map = value.and_then(Value::as_object).into_iter().flatten();
    map.filter_map(|(k, v)| Some((k.clone(), serde_json::from_value(v.clone()).ok()?))).collect()
}

/// Everything in a pod that a range does not allow.
pub(super) fn check_pod(pod: &Value, range: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    for limit in items(&range["spec"], "limits") {
        match text(limit, "type") {
            "Container" => {
                for list in ["containers", "initContainers"] {
                    for container in items(&pod["spec"], list) {
                        let requests = amounts(container.pointer("/resources/requests"));
                        let limits = amounts(container.pointer("/resources/limits"));
                        check(limit, "Container", &requests, &limits, &mut errors);
                    }
                }
            }
            "Pod" => {
                let total = |what| of_pod(pod, what, View::Spec).0;
                let (requests, limits) = (total(What::Requests), total(What::Limits));
                check(limit, "Pod", &requests, &limits, &mut errors);
            }
            _ => {}
        }
    }
    errors
}

/// Everything in a claim that a range does not allow.
pub(super) fn check_claim(claim: &Value, range: &Value) -> Vec<String> {
    const TYPE: &str = "PersistentVolumeClaim";
    let requests = amounts(claim.pointer("/spec/resources/requests"));
    let mut errors = Vec::new();
    for limit in items(&range["spec"], "limits").filter(|l| text(l, "type") == TYPE) {
        for (name, enforced) in amounts(limit.get("min")) {
            errors.extend(minimum(TYPE, &name, enforced, &requests, &Amounts::new()));
        }
        for (name, enforced) in amounts(limit.get("max")) {
            let head = format!("maximum {name} usage per {TYPE} is {enforced}");
            match requests.get(&name) {
                None => errors.push(format!("{head}.  No request is specified")),
                Some(request) if *request > enforced => {
                    errors.push(format!("{head}, but request is {request}"))
                }
                Some(_) => {}
            }
        }
    }
    errors
}

fn check(limit: &Value, kind: &str, requests: &Amounts, limits: &Amounts, errors: &mut Vec<String>) {
    for (name, enforced) in amounts(limit.get("min")) {
        errors.extend(minimum(kind, &name, enforced, requests, limits));
    }
    for (name, enforced) in amounts(limit.get("max")) {
        errors.extend(maximum(kind, &name, enforced, requests, limits));
    }
    for (name, enforced) in amounts(limit.get("maxLimitRequestRatio")) {
        errors.extend(ratio(kind, &name, enforced, requests, limits));
    }
}

fn minimum(
    kind: &str,
    name: &str,
    enforced: Quantity,
    requests: &Amounts,
    limits: &Amounts,
) -> Option<String> {
    let head = format!("minimum {name} usage per {kind} is {enforced}");
    match (requests.get(name), limits.get(name)) {
        (None, _) => Some(format!("{head}.  No request is specified")),
        (Some(request), _) if *request < enforced => Some(format!("{head}, but request is {request}")),
        (_, Some(limit)) if *limit < enforced => Some(format!("{head}, but limit is {limit}")),
        _ => None,
    }
}

fn maximum(
    kind: &str,
    name: &str,
    enforced: Quantity,
    requests: &Amounts,
    limits: &Amounts,
) -> Option<String> {
    let head = format!("maximum {name} usage per {kind} is {enforced}");
    match (limits.get(name), requests.get(name)) {
        (None, _) => Some(format!("{head}.  No limit is specified")),
        (Some(limit), _) if *limit > enforced => Some(format!("{head}, but limit is {limit}")),
        (_, Some(request)) if *request > enforced => Some(format!("{head}, but request is {request}")),
        _ => None,
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a ratio for a comparison and a text, as upstream computes it"
)]
fn ratio(kind: &str, name: &str, enforced: Quantity, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let head = format!("{name} max limit to request ratio per {kind} is {enforced}");
    let Some(request) = requests.get(name).filter(|r| !r.is_zero()) else {
        return Some(format!("{head}, but no request is specified or request is 0"));
    };
    let Some(limit) = limits.get(name).filter(|l| !l.is_zero()) else {
        return Some(format!("{head}, but no limit is specified or limit is 0"));
    };
    let observed = limit.nanos() as f64 / request.nanos() as f64;
    (observed > enforced.nanos() as f64 / 1e9).then(|| format!("{head}, but provided ratio is {observed:.6}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bounds_of_containers_and_pods() {
        let range = json!({"spec": {"limits": [
            {"type": "Container", "min": {"cpu": "100m"}, "max": {"memory": "1Gi"}, "maxLimitRequestRatio": {"cpu": "2"}},
            {"type": "Pod", "max": {"cpu": "1"}}]}});
        let container = |requests: Value, limits: Value| json!({"name": "c", "resources": {"requests": requests, "limits": limits}});
        let fine = json!({"spec": {"containers": [
            container(json!({"cpu": "100m", "memory": "1Gi"}), json!({"cpu": "200m", "memory": "1Gi"}))]}});
        assert_eq!(check_pod(&fine, &range), Vec::<String>::new());
        let bad = json!({"spec": {"containers": [
            container(json!({"cpu": "50m"}), json!({"cpu": "2", "memory": "2Gi"}))]}});
        assert_eq!(
            check_pod(&bad, &range),
            [
                "minimum cpu usage per Container is 100m, but request is 50m",
                "maximum memory usage per Container is 1Gi, but limit is 2Gi",
                "cpu max limit to request ratio per Container is 2, but provided ratio is 40.000000",
                "maximum cpu usage per Pod is 1, but limit is 2",
            ]
        );
    }

    #[test]
    fn claims_have_requests_only() {
        let range =
            json!({"spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]}});
        let claim = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
        assert_eq!(
            check_claim(&claim, &range),
            ["maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"]
        );
    }
}
