//! Who has to go first, and what is said about it. Texts are upstream's.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use copepod_api::Quantity;

use super::{Observation, Signal, Threshold};
use crate::pod::resources::pod_request;
use crate::pod::{PodExt, quantity};
use crate::types::PodRef;

/// What one pod takes of the resource, by container.
pub type Usage = BTreeMap<String, u64>;

/// One candidate.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The pod.
    pub pod: PodRef,
    /// What its containers take; `None` when nothing is known, which is the first reason to go.
    pub usage: Option<Usage>,
}

impl Candidate {
    fn total(&self) -> Option<u64> {
        self.usage.as_ref().map(|u| u.values().sum())
    }

    fn request(&self, resource: &str) -> u64 {
        u64::try_from(pod_request(&self.pod, resource).units()).unwrap_or(0)
    }
}

/// Sorts candidates, the first to go first: those nothing is known of, those above their requests, those of low
/// priority, those most above their requests.
pub fn rank(candidates: &mut [Candidate], signal: Signal) {
    let resource = signal.resource();
    candidates.sort_by_key(|candidate| {
        let priority = candidate.pod.spec().priority.unwrap_or(0);
        let Some(total) = candidate.total() else { return (false, false, priority, Reverse(i128::MAX)) };
        let request = candidate.request(resource);
        // Nothing is requested of inodes and process ids.
        let exceeds = total > request && !matches!(resource, "pids");
        (true, !exceeds, priority, Reverse(i128::from(total) - i128::from(request)))
    });
}

fn bytes(amount: u64) -> Quantity {
    Quantity::from_bytes(i64::try_from(amount).unwrap_or(i64::MAX))
}

/// An amount as messages show it: bytes in binary units, counts as they are.
fn shown(signal: Signal, amount: u64) -> String {
    match signal {
        Signal::MemoryAvailable | Signal::NodeFsAvailable | Signal::ImageFsAvailable => {
            bytes(amount).to_string()
        }
        _ => amount.to_string(),
    }
}

/// The message of an evicted pod.
#[must_use]
pub fn message(candidate: &Candidate, threshold: &Threshold, seen: Observation) -> String {
    let (signal, resource) = (threshold.signal, threshold.signal.resource());
    let mut text = format!("The node was low on resource: {resource}. ");
    text.push_str(&format!(
        "Threshold quantity: {}, available: {}. ",
        shown(signal, threshold.quantity(seen)),
        shown(signal, seen.available)
    ));
    let containers = candidate.pod.spec().containers.iter().chain(candidate.pod.init_containers());
    for container in containers {
        let Some(used) = candidate.usage.as_ref().and_then(|u| u.get(&container.name)) else { continue };
        let requests = container.resources.as_ref().and_then(|r| r.requests.as_ref());
        let request = quantity(requests, resource).unwrap_or_default();
        if *used > u64::try_from(request.units()).unwrap_or(0)
            && matches!(resource, "memory" | "ephemeral-storage")
        {
            text.push_str(&format!(
                "Container {} was using {}, request is {request}, has larger consumption of {resource}. ",
                container.name,
                bytes(*used)
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn candidate(name: &str, request: &str, priority: i32, used: Option<u64>) -> Candidate {
        let pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "uid": name},
            "spec": {"priority": priority, "containers": [
                {"name": "c", "resources": {"requests": {"memory": request}}}]}
        }));
        Candidate { pod: Arc::new(pod.unwrap()), usage: used.map(|u| Usage::from([("c".to_owned(), u)])) }
    }

    #[test]
    fn greedy_and_unimportant_pods_go_first() {
        let mut all = [
            candidate("modest", "100", 0, Some(50)),
            candidate("important", "100", 9, Some(500)),
            candidate("greedy", "100", 0, Some(300)),
            candidate("greedier", "100", 0, Some(400)),
            candidate("unknown", "100", 9, None),
        ];
        rank(&mut all, Signal::MemoryAvailable);
        let names: Vec<_> = all.iter().map(|c| c.pod.name()).collect();
        assert_eq!(names, ["unknown", "greedier", "greedy", "important", "modest"]);
    }

    #[test]
    fn the_message_names_the_culprits() {
        let config = crate::config::Config::default();
        let threshold = super::super::thresholds(&config)
            .into_iter()
            .find(|t| t.signal == Signal::MemoryAvailable)
            .unwrap();
        let seen = Observation { available: 50 << 20, capacity: 1 << 30 };
        assert_eq!(
            message(&candidate("p", "1Mi", 0, Some(8 << 20)), &threshold, seen),
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. \
             Container c was using 8Mi, request is 1Mi, has larger consumption of memory. "
        );
    }
}
