//! Preferred affinity between pods, in both directions.

use std::collections::HashMap;

use super::Look;
use crate::node::Node;
use crate::pod::Pod;
use crate::selector::{Labels, PodTerm};
use crate::snapshot::{NodeInfo, Snapshot};

/// What a required affinity of a placed pod weighs for the one to place; upstream's default.
const REQUIRED: i64 = 1;

/// Weights by node label and value.
pub(super) type Sums = HashMap<(String, String), i64>;

/// Adds up what the pod wishes of others, and what placed pods wish of it.
pub(super) fn sums(pod: &Pod, snapshot: &Snapshot) -> Sums {
    let mut sums = Sums::new();
    for (node, info) in snapshot.nodes() {
        for other in &info.pods {
            let mut add = |owner: &Pod, term: &PodTerm, target: &Pod, weight: i64| {
                let Some(value) = node.labels.get(&term.topology_key) else { return };
                if matches(term, owner, target, snapshot) {
                    *sums.entry((term.topology_key.clone(), value.clone())).or_default() += weight;
                }
            };
            for (owner, target) in [(pod, &**other), (&**other, pod)] {
                let Some(affinity) = &owner.affinity else { continue };
                for term in &affinity.pod_affinity.preferred {
                    add(owner, &term.preference, target, term.weight);
                }
                for term in &affinity.pod_anti_affinity.preferred {
                    add(owner, &term.preference, target, -term.weight);
                }
            }
            for term in other.affinity.iter().flat_map(|a| &a.pod_affinity.required) {
                add(other, term, pod, REQUIRED);
            }
        }
    }
    sums
}

fn matches(term: &PodTerm, owner: &Pod, target: &Pod, snapshot: &Snapshot) -> bool {
    let namespaces = |name: &str| -> Option<Labels> { snapshot.namespaces.get(name).cloned() };
    term.matches((&owner.key.namespace, &owner.labels), (&target.key.namespace, &target.labels), &namespaces)
}

pub(super) fn score(look: &Look<'_>, node: &Node, _: &NodeInfo) -> i64 {
    if look.affinity.is_empty() {
        return 0;
    }
    let here = node.labels.iter().filter_map(|(key, value)| look.affinity.get(&(key.clone(), value.clone())));
    here.sum()
}
