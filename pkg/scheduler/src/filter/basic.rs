//! Checks that look at one node alone.

use super::{Cycle, Refusal, UNSCHEDULABLE_TAINT};
use crate::node::Node;
use crate::pod::{Pod, Taint};
use crate::snapshot::NodeInfo;

pub(super) fn unschedulable(cycle: &Cycle<'_>, node: &Node, _: &NodeInfo) -> Option<Refusal> {
    if !node.unschedulable {
        return None;
    }
    let taint = Taint { key: UNSCHEDULABLE_TAINT.into(), value: "".into(), effect: "NoSchedule".into() };
    let waived = cycle.pod.tolerations.iter().any(|t| t.tolerates(&taint));
    (!waived).then(|| Refusal::permanent("node(s) were unschedulable"))
}

pub(super) fn taints(cycle: &Cycle<'_>, node: &Node, _: &NodeInfo) -> Option<Refusal> {
    let hard = node.taints.iter().filter(|t| matches!(&*t.effect, "NoSchedule" | "NoExecute"));
    let tolerated = |taint: &Taint| cycle.pod.tolerations.iter().any(|t| t.tolerates(taint));
    let bad = hard.into_iter().any(|taint| !tolerated(taint));
    bad.then(|| Refusal::permanent("node(s) had untolerated taint(s)"))
}

pub(super) fn node_affinity(cycle: &Cycle<'_>, node: &Node, _: &NodeInfo) -> Option<Refusal> {
    let fits = selects(cycle.pod, node);
    (!fits).then(|| Refusal::permanent("node(s) didn't match Pod's node affinity/selector"))
}

/// Whether the pod's node selector and required node affinity allow the node.
pub(crate) fn selects(pod: &Pod, node: &Node) -> bool {
    let labels = pod.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value));
    let required = pod.affinity.as_ref().and_then(|a| a.node_affinity.required.as_ref());
    labels
        && required
            .is_none_or(|r| r.node_selector_terms.iter().any(|term| term.matches(&node.name, &node.labels)))
}

pub(super) fn ports(cycle: &Cycle<'_>, _: &Node, info: &NodeInfo) -> Option<Refusal> {
    let taken = || info.pods.iter().flat_map(|p| &p.ports);
    let conflict = cycle.pod.ports.iter().any(|port| taken().any(|other| port.conflicts(other)));
    conflict.then(|| Refusal::resolvable("node(s) didn't have free ports for the requested pod ports"))
}

/// All that is short is named. What exceeds the whole node cannot be had by removing pods.
pub(super) fn resources(cycle: &Cycle<'_>, node: &Node, info: &NodeInfo) -> Option<Refusal> {
    let mut refusal = Refusal { reasons: Vec::new(), resolvable: true };
    let room = node.allocatable.get("pods");
    if i64::try_from(info.pods.len()).unwrap_or(i64::MAX) >= room {
        refusal.reasons.push("Too many pods".to_owned());
    }
    for (name, amount) in cycle.pod.requests.iter().filter(|(_, amount)| *amount > 0) {
        let total = node.allocatable.get(name);
        if amount > total.saturating_sub(info.requested.get(name)) {
            refusal.reasons.push(format!("Insufficient {name}"));
            refusal.resolvable &= amount <= total;
        }
    }
    (!refusal.reasons.is_empty()).then_some(refusal)
}
