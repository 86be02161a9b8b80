//! Affinity and anti-affinity between pods.

use std::collections::{HashMap, HashSet};

use super::{Cycle, Refusal};
use crate::node::Node;
use crate::pod::Pod;
use crate::selector::{Labels, PodTerm};
use crate::snapshot::{NodeInfo, Snapshot};

/// A place: a node label and its value.
type Place = (String, String);

/// What one look over the cluster found.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Places from which placed pods keep this one away.
    forbidden: HashSet<Place>,
    /// Places with pods that match all of the pod's affinity terms.
    wanted: HashMap<Place, usize>,
    /// Places with pods that match one of its anti-affinity terms.
    unwanted: HashSet<Place>,
    /// Whether the pod matches its own affinity terms, which lets the first of a group be placed.
    own: bool,
}

fn required(pod: &Pod) -> (&[PodTerm], &[PodTerm]) {
    pod.affinity.as_ref().map_or((&[], &[]), |a| (&a.pod_affinity.required, &a.pod_anti_affinity.required))
}

fn place(term: &PodTerm, node: &Node) -> Option<Place> {
    node.labels.get(&term.topology_key).map(|value| (term.topology_key.clone(), value.clone()))
}

fn matches(term: &PodTerm, owner: &Pod, other: &Pod, namespaces: &dyn Fn(&str) -> Option<Labels>) -> bool {
    term.matches((&owner.key.namespace, &owner.labels), (&other.key.namespace, &other.labels), namespaces)
}

pub(super) fn count(pod: &Pod, snapshot: &Snapshot) -> Counts {
    let namespaces = |name: &str| snapshot.namespaces.get(name).cloned();
    let (wants, avoids) = required(pod);
    let mut counts =
        Counts { own: wants.iter().all(|t| matches(t, pod, pod, &namespaces)), ..Counts::default() };
    for (node, info) in snapshot.nodes() {
        for other in &info.pods {
            for term in required(other).1.iter().filter(|t| matches(t, other, pod, &namespaces)) {
                counts.forbidden.extend(place(term, node));
            }
            if !wants.is_empty() && wants.iter().all(|t| matches(t, pod, other, &namespaces)) {
                for at in wants.iter().filter_map(|t| place(t, node)) {
                    *counts.wanted.entry(at).or_default() += 1;
                }
            }
            for term in avoids.iter().filter(|t| matches(t, pod, other, &namespaces)) {
                counts.unwanted.extend(place(term, node));
            }
        }
    }
    counts
}

pub(super) fn filter(cycle: &Cycle<'_>, node: &Node, _: &NodeInfo) -> Option<Refusal> {
    let counts = &cycle.affinity;
    let (wants, avoids) = required(cycle.pod);
    let labelled = wants.iter().all(|term| node.labels.contains_key(&term.topology_key));
    let near = wants.iter().all(|t| place(t, node).is_some_and(|at| counts.wanted.contains_key(&at)));
    let first = counts.wanted.is_empty() && counts.own;
    if !labelled || !(near || first) {
        return Some(Refusal::permanent("node(s) didn't match pod affinity rules"));
    }
    if avoids.iter().filter_map(|t| place(t, node)).any(|at| counts.unwanted.contains(&at)) {
        return Some(Refusal::resolvable("node(s) didn't match pod anti-affinity rules"));
    }
    if node.labels.iter().any(|(k, v)| counts.forbidden.contains(&(k.clone(), v.clone()))) {
        return Some(Refusal::resolvable("node(s) didn't satisfy existing pods anti-affinity rules"));
    }
    None
}
