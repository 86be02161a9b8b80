//! Which nodes a pod can go to, and why not to the others. Pure: a snapshot in, reasons out.
//!
//! [`FILTERS`] lists the checks in upstream's order; a node is asked until the first one refuses it. Reasons are
//! upstream's texts, since people and tools look for them.

mod affinity;
mod basic;
mod spread;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::node::Node;
use crate::pod::Pod;
use crate::snapshot::{NodeInfo, Snapshot};

/// Why a node is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Upstream's texts.
    pub reasons: Vec<String>,
    /// Whether removing pods from the node could help.
    pub resolvable: bool,
}

impl Refusal {
    fn resolvable(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], resolvable: true }
    }

    fn permanent(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], resolvable: false }
    }
}

/// What is computed once per pod.
#[derive(Debug)]
pub struct Cycle<'a> {
    /// The pod to place.
    pub pod: &'a Pod,
    affinity: affinity::Counts,
    spread: Vec<spread::Places>,
}

/// One check of one node.
pub type Filter = fn(&Cycle<'_>, &Node, &NodeInfo) -> Option<Refusal>;

/// The checks, in upstream's order.
pub const FILTERS: &[(&str, Filter)] = &[
    ("NodeUnschedulable", basic::unschedulable),
    ("TaintToleration", basic::taints),
    ("NodeAffinity", basic::node_affinity),
    ("NodePorts", basic::ports),
    ("NodeResourcesFit", basic::resources),
    ("PodTopologySpread", spread::filter),
    ("InterPodAffinity", affinity::filter),
];

/// The taint of a cordoned node, which a toleration can waive.
pub(crate) const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

impl<'a> Cycle<'a> {
    /// Looks over the whole cluster once for `pod`.
    #[must_use]
    pub fn new(pod: &'a Pod, snapshot: &Snapshot) -> Self {
        Self { pod, affinity: affinity::count(pod, snapshot), spread: spread::count(pod, snapshot) }
    }

    /// Asks one node.
    #[must_use]
    pub fn check(&self, node: &Node, info: &NodeInfo) -> Option<Refusal> {
        FILTERS.iter().find_map(|(_, filter)| filter(self, node, info))
    }
}

/// The answer for all nodes.
#[derive(Debug, Default)]
pub struct Feasibility {
    /// Nodes that take the pod.
    pub fits: Vec<Arc<Node>>,
    /// The others, with their reasons.
    pub refused: BTreeMap<Box<str>, Refusal>,
}

/// Asks every node. Pods in `nominated` (with their node) that are not less important are counted as placed, so that
/// room which was made for them is not given away.
#[must_use]
pub fn feasible(pod: &Pod, snapshot: &Snapshot, nominated: &[(Box<str>, Arc<Pod>)]) -> Feasibility {
    let mut answer = Feasibility::default();
    let plain = Cycle::new(pod, snapshot);
    for (node, info) in snapshot.nodes() {
        let waiting: Vec<_> = nominated
            .iter()
            .filter(|(at, other)| *at == node.name && other.priority >= pod.priority && other.uid != pod.uid)
            .filter(|(_, other)| !snapshot.has(&other.key, &other.uid))
            .collect();
        let mut refusal = plain.check(node, info);
        if refusal.is_none() && !waiting.is_empty() {
            let mut crowded = snapshot.clone();
            if let Some(info) = crowded.node_mut(&node.name) {
                waiting.iter().for_each(|(_, other)| info.add(Arc::clone(other)));
            }
            let cycle = Cycle::new(pod, &crowded);
            refusal = crowded.node(&node.name).and_then(|info| cycle.check(node, info));
        }
        match refusal {
            None => answer.fits.push(Arc::clone(node)),
            Some(refusal) => {
                answer.refused.insert(node.name.clone(), refusal);
            }
        }
    }
    answer
}

/// `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) …. <after>`: upstream's summary of refusals.
#[must_use]
pub fn summary(refused: &BTreeMap<Box<str>, Refusal>, total: usize, after: &str) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in refused.values().flat_map(|r| &r.reasons) {
        *counts.entry(reason).or_default() += 1;
    }
    let mut lines: Vec<_> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    lines.sort();
    let mut text = format!("0/{total} nodes are available:");
    if !lines.is_empty() {
        text.push_str(&format!(" {}.", lines.join(", ")));
    }
    if !after.is_empty() {
        text.push(' ');
        text.push_str(after);
    }
    text
}

#[cfg(test)]
mod tests;
