//! Amounts of resources, and what a pod asks for in all.

use std::collections::BTreeMap;

use copepod_api::Quantity;
use serde::{Deserialize, Deserializer};

/// Amounts by resource name. CPU counts in thousandths, everything else in units.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources(BTreeMap<Box<str>, i64>);

impl Resources {
    /// The amount of `name`; 0 when absent.
    #[must_use]
    pub fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Names and amounts, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, amount)| (&**name, *amount))
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &Self) {
        self.merge(other, i64::saturating_add);
    }

    /// Takes `other` away.
    pub fn subtract(&mut self, other: &Self) {
        self.merge(other, i64::saturating_sub);
    }

    /// Raises each amount to that of `other` where that is larger.
    pub fn raise_to(&mut self, other: &Self) {
        self.merge(other, i64::max);
    }

    fn merge(&mut self, other: &Self, combine: impl Fn(i64, i64) -> i64) {
        for (name, amount) in &other.0 {
            let mine = self.0.entry(name.clone()).or_insert(0);
            *mine = combine(*mine, *amount);
        }
    }
}

impl FromIterator<(String, i64)> for Resources {
    fn from_iter<I: IntoIterator<Item = (String, i64)>>(amounts: I) -> Self {
        Self(amounts.into_iter().map(|(name, amount)| (name.into(), amount)).collect())
    }
}

impl<'de> Deserialize<'de> for Resources {
    /// Reads a map of quantities; one that cannot be read counts as absent, the API server has refused it long before.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = Option::<BTreeMap<Box<str>, Quantity>>::deserialize(deserializer)?.unwrap_or_default();
        let amount = |name: &str, q: Quantity| if name == "cpu" { q.millis() } else { q.units() };
        Ok(Self(map.into_iter().map(|(name, quantity)| (name.clone(), amount(&name, quantity))).collect()))
    }
}

/// What the sums need to know of a container.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// `resources.requests`.
    pub resources: Requirements,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<String>,
    /// Published ports.
    pub ports: Vec<ContainerPort>,
    /// Image name.
    pub image: Box<str>,
}

/// A container's or a pod's `resources`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Requirements {
    /// What is asked for.
    pub requests: Resources,
}

/// A container's port.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Port on the host; 0 is none.
    pub host_port: u16,
    /// Address on the host; empty is all.
    #[serde(rename = "hostIP")]
    pub host_ip: Box<str>,
    /// `TCP` unless said otherwise.
    pub protocol: Box<str>,
}

/// Sums a pod's requests: containers and sidecars run together; an init container runs beside the sidecars started
/// before it. Requests of the pod as a whole replace the sums they name; overhead comes on top.
#[must_use]
pub fn pod_requests(
    containers: &[Container],
    init: &[Container],
    whole: &Resources,
    overhead: &Resources,
) -> Resources {
    sum(|container| container.resources.requests.clone(), containers, init, whole, overhead)
}

/// What a container that asks for no CPU or memory counts as when nodes are compared; upstream's figures.
const UNASKED: [(&str, i64); 2] = [("cpu", 100), ("memory", 200 * 1024 * 1024)];

/// The same, with a default for each container that asks for none.
#[must_use]
pub fn assumed_requests(
    containers: &[Container],
    init: &[Container],
    whole: &Resources,
    overhead: &Resources,
) -> Resources {
    let assumed = |container: &Container| {
        let asked = &container.resources.requests;
        let named = UNASKED
            .iter()
            .map(|(name, default)| ((*name).to_owned(), asked.0.get(*name).copied().unwrap_or(*default)));
        named.collect()
    };
    sum(assumed, containers, init, whole, overhead)
}

fn sum(
    of: impl Fn(&Container) -> Resources,
    containers: &[Container],
    init: &[Container],
    whole: &Resources,
    overhead: &Resources,
) -> Resources {
    let mut total = Resources::default();
    for container in containers {
        total.add(&of(container));
    }
    let mut sidecars = Resources::default();
    let mut peak = Resources::default();
    for container in init {
        let own = of(container);
        let mut moment = sidecars.clone();
        moment.add(&own);
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = moment.clone();
            total.add(&own);
        }
        peak.raise_to(&moment);
    }
    total.raise_to(&peak);
    for (name, amount) in &whole.0 {
        total.0.insert(name.clone(), *amount);
    }
    total.add(overhead);
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cpu(amount: &str, policy: Option<&str>) -> Container {
        serde_json::from_value(json!({"resources": {"requests": {"cpu": amount}}, "restartPolicy": policy}))
            .unwrap()
    }

    #[test]
    fn init_containers_peak_and_sidecars_stay() {
        let none = Resources::default();
        let containers = [cpu("100m", None), cpu("200m", None)];
        assert_eq!(pod_requests(&containers, &[], &none, &none).get("cpu"), 300);
        assert_eq!(pod_requests(&containers, &[cpu("1", None)], &none, &none).get("cpu"), 1000);
        let init = [cpu("50m", Some("Always")), cpu("280m", None)];
        assert_eq!(pod_requests(&containers, &init, &none, &none).get("cpu"), 350, "sum with the sidecar");
        let init = [cpu("50m", Some("Always")), cpu("400m", None)];
        assert_eq!(pod_requests(&containers, &init, &none, &none).get("cpu"), 450, "init beside the sidecar");
        let whole = [("cpu".to_owned(), 500)].into_iter().collect();
        let overhead = [("cpu".to_owned(), 10), ("memory".to_owned(), 7)].into_iter().collect();
        let sum = pod_requests(&containers, &[], &whole, &overhead);
        assert_eq!((sum.get("cpu"), sum.get("memory")), (510, 7));
    }
}
