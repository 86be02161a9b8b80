//! What a pod asks for as a whole (`k8s.io/component-helpers/resource`).

use serde_json::Value;

use crate::Amounts;

/// `requests` or `limits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// What is asked for.
    Requests,
    /// What is allowed at most.
    Limits,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }
}

/// How a pod is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Its specification alone, without overhead: what LimitRanger looks at.
    Spec,
    /// The largest of specification, allocation and what runs, with overhead: a resize counts in full until it is
    /// through.
    Effective,
}

/// Whether a pod as a whole may ask for a resource.
fn for_whole_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// Whether the pod itself names requests or limits, of those that count for whole pods.
#[must_use]
pub fn of_whole_pod(pod: &Value) -> bool {
    ["requests", "limits"].iter().any(|what| whole(pod, what).0.keys().any(|name| for_whole_pods(name)))
}

fn whole(pod: &Value, what: &str) -> Amounts {
    Amounts::read(pod.pointer("/spec/resources").and_then(|r| r.get(what)))
}

fn list<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

/// The requests or the limits of a pod: containers and sidecars run together, an init container runs beside the
/// sidecars started before it; what the pod itself names takes the sums' place.
#[must_use]
pub fn of_pod(pod: &Value, what: What, view: View) -> Amounts {
    let name = what.name();
    let mut total = match view {
        View::Spec => sum(pod, |container, _| spec(container, name)),
        View::Effective => effective(pod, what),
    };
    let named = whole(pod, name);
    for (resource, amount) in named.0.iter().filter(|(resource, _)| for_whole_pods(resource)) {
        total.set(resource.as_str(), *amount);
    }
    if view == View::Effective {
        let mut overhead = Amounts::read(pod.pointer("/spec/overhead"));
        if what == What::Limits {
            overhead = overhead.only(|resource| total.get(resource).is_some_and(|limit| !limit.is_zero()));
        }
        total.add(&overhead);
    }
    total
}

fn spec(container: &Value, what: &str) -> Option<Amounts> {
    container.get("resources").and_then(|r| r.get(what)).map(|map| Amounts::read(Some(map)))
}

fn effective(pod: &Value, what: What) -> Amounts {
    let name = what.name();
    let infeasible = list(pod, "/status/conditions")
        .find(|c| c["type"] == "PodResizePending")
        .is_some_and(|c| c["reason"] == "Infeasible");
    let wanted = |container: &Value| if infeasible { None } else { spec(container, name) };
    let allocated = |status: Option<&Value>| {
        let requests = (what == What::Requests).then_some(status).flatten();
        requests.and_then(|s| s.get("allocatedResources")).map(|map| Amounts::read(Some(map)))
    };
    let running = |status: Option<&Value>| status.and_then(|s| spec(s, name));
    let mut total = sum(pod, |container, status| {
        running(status).or_else(|| allocated(status)).or_else(|| wanted(container))
    });
    total.raise_to(&sum(pod, |container, status| allocated(status).or_else(|| wanted(container))));
    if !infeasible {
        total.raise_to(&sum(pod, |container, _| spec(container, name)));
    }
    total
}

/// Adds the containers up by what `of` says of each and its status.
fn sum(pod: &Value, of: impl Fn(&Value, Option<&Value>) -> Option<Amounts>) -> Amounts {
    let amounts = |container: &Value| {
        let statuses = ["/status/containerStatuses", "/status/initContainerStatuses"];
        let status =
            statuses.iter().find_map(|path| list(pod, path).find(|s| s["name"] == container["name"]));
        of(container, status).unwrap_or_default()
    };
    let mut total = Amounts::default();
    for container in list(pod, "/spec/containers") {
        total.add(&amounts(container));
    }
    let (mut sidecars, mut peak) = (Amounts::default(), Amounts::default());
    for container in list(pod, "/spec/initContainers") {
        let own = amounts(container);
        let mut moment = sidecars.clone();
        moment.add(&own);
        if container["restartPolicy"] == "Always" {
            total.add(&own);
            sidecars.clone_from(&moment);
        }
        peak.raise_to(&moment);
    }
    total.raise_to(&peak);
    total
}

/// Whether a pod asks for no CPU or memory at all (`status.qosClass`, or what it would be).
#[must_use]
pub fn is_best_effort(pod: &Value) -> bool {
    if let Some(class) = pod.pointer("/status/qosClass").and_then(Value::as_str).filter(|c| !c.is_empty()) {
        return class == "BestEffort";
    }
    let nothing = |resources: Option<&Value>| {
        ["requests", "limits"].iter().all(|what| {
            let amounts = Amounts::read(resources.and_then(|r| r.get(what)));
            ["cpu", "memory"].iter().all(|name| amounts.get(name).is_none_or(|amount| amount.is_zero()))
        })
    };
    if of_whole_pod(pod) {
        return nothing(pod.pointer("/spec/resources"));
    }
    let all = ["/spec/containers", "/spec/initContainers"];
    all.iter().flat_map(|path| list(pod, path)).all(|container| nothing(container.get("resources")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_resize_counts_in_full_until_it_is_through() {
        let pod = json!({
            "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "2"}}}], "overhead": {"cpu": "1"}},
            "status": {"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "3"},
                "resources": {"requests": {"cpu": "1"}}}]},
        });
        assert_eq!(of_pod(&pod, What::Requests, View::Effective).shown(), "cpu=4");
        assert_eq!(of_pod(&pod, What::Requests, View::Spec).shown(), "cpu=2");
        assert_eq!(of_pod(&pod, What::Limits, View::Effective).shown(), "");
    }

    #[test]
    fn init_containers_peak_and_the_pod_speaks_for_itself() {
        let mut pod = json!({"spec": {
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "100m", "example.com/x": "1"}}}],
            "initContainers": [
                {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}},
                {"name": "i", "resources": {"requests": {"cpu": "400m"}}}],
        }});
        assert_eq!(of_pod(&pod, What::Requests, View::Spec).shown(), "cpu=450m,example.com/x=1");
        pod["spec"]["resources"] = json!({"requests": {"cpu": "1"}});
        assert_eq!(of_pod(&pod, What::Requests, View::Spec).shown(), "cpu=1,example.com/x=1");
    }
}
