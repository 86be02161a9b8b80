//! ResourceClaims: devices are not allocated yet, so a pod that asks for some waits, and says what for.

use copepod_client::resources::{DEVICE_CLASSES, RESOURCE_CLAIMS};
use copepod_client::{Client, Informer, InformerConfig};
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::filter::Refusal;
use crate::pod::Pod;

/// A claim, as far as waiting for it goes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Claim {
    spec: Value,
    status: Value,
}

/// Only whether it is there matters.
#[derive(Debug, Deserialize)]
struct Class {}

/// What keeps a pod from being placed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// A claim does not exist yet: the pod is not even looked at.
    Hold,
    /// No node can help; upstream's text.
    Nowhere(String),
    /// Each node lacks the devices; upstream's text.
    Each(Refusal),
}

/// Claims and classes of devices as the API server has them.
#[derive(Debug)]
pub(crate) struct Devices {
    claims: Informer<Claim>,
    classes: Informer<Class>,
}

impl Devices {
    pub(crate) fn new() -> Self {
        Self {
            claims: Informer::new(InformerConfig::all(RESOURCE_CLAIMS)),
            classes: Informer::new(InformerConfig::all(DEVICE_CLASSES).metadata_only()),
        }
    }

    pub(crate) fn start(&self, client: &Client, stop: &CancellationToken) {
        self.claims.start(client, stop);
        self.classes.start(client, stop);
    }

    pub(crate) async fn synced(&self) {
        tokio::join!(self.claims.synced(), self.classes.synced());
    }

    pub(crate) fn on_change(&self, wake: impl Fn() + Send + Sync + Clone + 'static) {
        let other = wake.clone();
        self.claims.on_change(move |_, _| wake());
        self.classes.on_change(move |_, _| other());
    }

    /// What the pod's claims stand in the way with.
    pub(crate) fn check(&self, pod: &Pod) -> Option<Obstacle> {
        let mut unallocated = false;
        for name in &pod.devices {
            let Some(claim) = name.as_ref().and_then(|name| self.claims.get(&pod.key.namespace, name)) else {
                return Some(Obstacle::Hold);
            };
            if claim.status.get("allocation").is_some_and(|allocation| !allocation.is_null()) {
                continue;
            }
            unallocated = true;
            if let Some(why) = missing_class(&claim.spec, |class| self.classes.get("", class).is_some()) {
                return Some(Obstacle::Nowhere(why));
            }
        }
        let refusal = Refusal { reasons: vec!["cannot allocate all claims".to_owned()], resolvable: false };
        unallocated.then_some(Obstacle::Each(refusal))
    }
}

/// The first request for a class that does not exist.
fn missing_class(spec: &Value, known: impl Fn(&str) -> bool) -> Option<String> {
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    for request in list(&spec["devices"], "requests") {
        let name = request["name"].as_str().unwrap_or_default();
        let alternatives = list(&request, "firstAvailable");
        for asked in request.get("exactly").into_iter().chain(&alternatives) {
            let class = asked["deviceClassName"].as_str().unwrap_or_default();
            if !known(class) {
                let part = asked["name"].as_str().map_or(String::new(), |part| format!("/{part}"));
                return Some(format!("request {name}{part}: device class {class} does not exist"));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_class_that_is_missing_is_named() {
        let spec = json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "nope"}}]}});
        assert_eq!(missing_class(&spec, |_| false).unwrap(), "request r: device class nope does not exist");
        assert_eq!(missing_class(&spec, |_| true), None);
    }
}
