//! Which of several nodes is best. Each scorer gives 0 to 100; weights are upstream's.

use std::sync::Arc;

use crate::node::Node;
use crate::pod::Pod;
use crate::snapshot::{NodeInfo, Snapshot};

/// Upstream's defaults for a container that asks for nothing.
const UNASKED: [(&str, i64); 2] = [("cpu", 100), ("memory", 200 * 1024 * 1024)];

type Raw = fn(&Pod, &Node, &NodeInfo) -> f64;

/// Name, weight, raw score, and whether raw scores are relative to the best (`Some(reverse)`).
const SCORERS: &[(&str, f64, Raw, Option<bool>)] = &[
    ("NodeResourcesFit", 1.0, least_allocated, None),
    ("NodeResourcesBalancedAllocation", 1.0, balanced, None),
    ("TaintToleration", 3.0, soft_taints, Some(true)),
    ("NodeAffinity", 2.0, preferred_nodes, Some(false)),
    ("PodTopologySpread", 2.0, crowding, Some(true)),
];

/// The best of `fits`; of equals the first by name, so that the choice can be explained.
#[must_use]
pub fn best(pod: &Pod, snapshot: &Snapshot, fits: &[Arc<Node>]) -> Option<Arc<Node>> {
    let mut totals = vec![0.0; fits.len()];
    for (_, weight, raw, relative) in SCORERS {
        let scores: Vec<f64> = fits
            .iter()
            .map(|node| snapshot.node(&node.name).map_or(0.0, |info| raw(pod, node, info)))
            .collect();
        let most = scores.iter().copied().fold(0.0, f64::max);
        for (total, score) in totals.iter_mut().zip(scores) {
            let score = match relative {
                None => score,
                Some(reverse) if most <= 0.0 => {
                    if *reverse {
                        100.0
                    } else {
                        0.0
                    }
                }
                Some(false) => score * 100.0 / most,
                Some(true) => 100.0 - score * 100.0 / most,
            };
            *total += weight * score;
        }
    }
    let mut best: Option<(f64, &Arc<Node>)> = None;
    for (total, node) in totals.into_iter().zip(fits) {
        if best.is_none_or(|(most, _)| total > most) {
            best = Some((total, node));
        }
    }
    best.map(|(_, node)| Arc::clone(node))
}

#[expect(clippy::cast_precision_loss, reason = "a share between 0 and 1 needs no more digits")]
fn shares(pod: &Pod, node: &Node, info: &NodeInfo) -> Vec<f64> {
    let share = |(name, unasked): &(&str, i64)| {
        let total = node.allocatable.get(name);
        let own = match pod.requests.get(name) {
            0 => *unasked,
            own => own,
        };
        let used = info.requested.get(name).saturating_add(own);
        if total <= 0 { 1.0 } else { (used as f64 / total as f64).min(1.0) }
    };
    UNASKED.iter().map(share).collect()
}

fn least_allocated(pod: &Pod, node: &Node, info: &NodeInfo) -> f64 {
    let shares = shares(pod, node, info);
    shares.iter().map(|share| 50.0 * (1.0 - share)).sum()
}

fn balanced(pod: &Pod, node: &Node, info: &NodeInfo) -> f64 {
    let shares = shares(pod, node, info);
    let spread = shares.iter().copied().fold(0.0, f64::max) - shares.iter().copied().fold(1.0, f64::min);
    100.0 * (1.0 - spread / 2.0)
}

fn soft_taints(pod: &Pod, node: &Node, _: &NodeInfo) -> f64 {
    let soft = node.taints.iter().filter(|t| &*t.effect == "PreferNoSchedule");
    let count = soft.filter(|taint| !pod.tolerations.iter().any(|t| t.tolerates(taint))).count();
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn preferred_nodes(pod: &Pod, node: &Node, _: &NodeInfo) -> f64 {
    let Some(affinity) = &pod.affinity else { return 0.0 };
    let terms = affinity.node_affinity.preferred.iter();
    let matching = terms.filter(|t| t.preference.matches(&node.name, &node.labels));
    matching.map(|t| f64::from(i32::try_from(t.weight).unwrap_or(0))).sum()
}

/// Pods on the node that soft spread constraints count.
fn crowding(pod: &Pod, _: &Node, info: &NodeInfo) -> f64 {
    let soft = pod.spread.iter().filter(|s| &*s.when_unsatisfiable == "ScheduleAnyway");
    let near = soft.flat_map(|s| {
        info.pods.iter().filter(move |other| {
            other.key.namespace == pod.key.namespace && s.counts(&pod.labels, &other.labels)
        })
    });
    f64::from(u32::try_from(near.count()).unwrap_or(u32::MAX))
}
