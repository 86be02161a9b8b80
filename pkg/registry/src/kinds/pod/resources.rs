//! What a pod asks for as a whole: quality of service, and pod-level resources that follow from its containers'.

use std::collections::BTreeMap;

use copepod_api::Quantity;
use serde_json::Value;

use crate::kinds::defaults::{Object, map_mut};

/// Amounts by resource.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// Reads a resource list; amounts that do not parse are left out.
pub(crate) fn amounts(list: Option<&Value>) -> Amounts {
    let entries = list.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(name, v)| Some((name.clone(), quantity(v)?))).collect()
}

/// Reads one amount.
pub(crate) fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

fn list<'a>(spec: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    spec.get(field).and_then(Value::as_array).into_iter().flatten()
}

/// The quality of service class of a pod's spec: upstream's `qos.ComputePodQOS`.
pub(crate) fn qos_class(spec: &Value) -> &'static str {
    let pod_level =
        spec.get("resources").filter(|r| r.get("requests").is_some() || r.get("limits").is_some());
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut guaranteed = true;
    let holders: Vec<&Value> = match pod_level {
        Some(resources) => vec![resources],
        None => list(spec, "containers")
            .chain(list(spec, "initContainers"))
            .map(|c| c.get("resources").unwrap_or(&Value::Null))
            .collect(),
    };
    for resources in holders {
        add_compute(&mut requests, resources.get("requests"));
        let found = add_compute(&mut limits, resources.get("limits"));
        guaranteed &= found == 2;
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    let equal = requests.iter().all(|(name, amount)| limits.get(name) == Some(amount));
    if guaranteed && equal && requests.len() == limits.len() { "Guaranteed" } else { "Burstable" }
}

/// Adds cpu and memory above zero to `sum`; how many of the two there were.
fn add_compute(sum: &mut Amounts, list: Option<&Value>) -> usize {
    let found = amounts(list)
        .into_iter()
        .filter(|(name, amount)| matches!(name.as_str(), "cpu" | "memory") && *amount > Quantity::ZERO);
    found.map(|(name, amount)| add(sum, &name, amount)).count()
}

fn add(sum: &mut Amounts, name: &str, amount: Quantity) {
    let total = sum.get(name).copied().map_or(amount, |have| have + amount);
    sum.insert(name.to_owned(), total);
}

/// What all containers need together: regular and restartable init containers at once, or any init container beside
/// the restartable ones started before it.
pub(crate) fn effective(spec: &Value, which: &str) -> Amounts {
    let of = |c: &Value| amounts(c.get("resources").and_then(|r| r.get(which)));
    let mut total = Amounts::new();
    for container in list(spec, "containers") {
        of(container).iter().for_each(|(name, amount)| add(&mut total, name, *amount));
    }
    let (mut restartable, mut peak) = (Amounts::new(), Amounts::new());
    for container in list(spec, "initContainers") {
        let mut now = of(container);
        if container.get("restartPolicy").and_then(Value::as_str) == Some("Always") {
            for (name, amount) in &now {
                add(&mut total, name, *amount);
                add(&mut restartable, name, *amount);
            }
            now.clone_from(&restartable);
        } else {
            restartable.iter().for_each(|(name, amount)| add(&mut now, name, *amount));
        }
        raise(&mut peak, &now);
    }
    raise(&mut total, &peak);
    total
}

fn raise(to: &mut Amounts, at_least: &Amounts) {
    for (name, amount) in at_least {
        if to.get(name).is_none_or(|have| have < amount) {
            to.insert(name.clone(), *amount);
        }
    }
}

/// Fills in pod-level resources, when the pod names some of its own.
pub(crate) fn default_pod_level(spec: &mut Object) {
    let Some(resources) = spec.get("resources").and_then(Value::as_object).cloned() else { return };
    let named = |which: &str| resources.get(which).and_then(Value::as_object).is_some_and(|m| !m.is_empty());
    if !named("limits") && !named("requests") {
        return;
    }
    let whole = Value::Object(spec.clone());
    let resources = map_mut(spec, "resources");
    for (name, amount) in effective(&whole, "limits") {
        let requested = resources.get("requests").and_then(|r| r.get(&name)).is_some();
        if name.starts_with("hugepages-") && !requested {
            fill_amount(resources, "limits", &name, amount);
        }
    }
    if resources.get("limits").and_then(Value::as_object).is_none_or(Object::is_empty) {
        return;
    }
    for (name, amount) in effective(&whole, "requests") {
        if matches!(name.as_str(), "cpu" | "memory") {
            fill_amount(resources, "requests", &name, amount);
        }
    }
    for (name, amount) in amounts(resources.get("limits")) {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            fill_amount(resources, "requests", &name, amount);
        }
    }
}

fn fill_amount(resources: &mut Object, which: &str, name: &str, amount: Quantity) {
    crate::kinds::defaults::fill(map_mut(resources, which), name, amount.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quality_of_service() {
        let cases = [
            (json!({"containers": [{}]}), "BestEffort"),
            (json!({"containers": [{"resources": {"requests": {"cpu": "1"}}}]}), "Burstable"),
            (
                json!({"containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"},
                    "limits": {"cpu": "1000m", "memory": "1024Mi"}}}]}),
                "Guaranteed",
            ),
            (
                json!({"containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"},
                    "limits": {"cpu": "1", "memory": "1Gi"}}}, {}]}),
                "Burstable",
            ),
        ];
        for (spec, want) in cases {
            assert_eq!(qos_class(&spec), want, "{spec}");
        }
    }

    #[test]
    fn init_containers_set_a_peak() {
        let spec = json!({"containers": [{"resources": {"requests": {"cpu": "1"}}}],
            "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
                {"resources": {"requests": {"cpu": "2"}}}]});
        assert_eq!(effective(&spec, "requests")["cpu"].to_string(), "2500m");
    }
}
