//! Even spreading over places.

use std::collections::BTreeMap;

use super::basic::selects;
use super::{Cycle, Refusal};
use crate::node::Node;
use crate::pod::{Pod, Spread};
use crate::snapshot::{NodeInfo, Snapshot};

const REASON: &str = "node(s) didn't match pod topology spread constraints";

/// Matching pods per place, for one hard constraint.
#[derive(Debug)]
pub(super) struct Places {
    counts: BTreeMap<String, i64>,
    least: i64,
    own: i64,
}

fn hard(pod: &Pod) -> impl Iterator<Item = &Spread> {
    pod.spread.iter().filter(|s| &*s.when_unsatisfiable != "ScheduleAnyway")
}

/// Whether a node is one of the places that count.
fn counts(pod: &Pod, constraint: &Spread, node: &Node) -> bool {
    let is = |policy: &Option<Box<str>>, text| policy.as_deref() == Some(text);
    let affinity = is(&constraint.node_affinity_policy, "Ignore") || selects(pod, node);
    let hard = node.taints.iter().filter(|t| &*t.effect != "PreferNoSchedule");
    let taints = !is(&constraint.node_taints_policy, "Honor")
        || hard.into_iter().all(|taint| pod.tolerations.iter().any(|t| t.tolerates(taint)));
    affinity && taints
}

pub(super) fn count(pod: &Pod, snapshot: &Snapshot) -> Vec<Places> {
    let keys: Vec<_> = hard(pod).map(|s| &s.topology_key).collect();
    hard(pod).map(|constraint| places(pod, constraint, &keys, snapshot)).collect()
}

fn places(pod: &Pod, constraint: &Spread, keys: &[&String], snapshot: &Snapshot) -> Places {
    let mut found: BTreeMap<String, i64> = BTreeMap::new();
    for (node, info) in snapshot.nodes() {
        if !keys.iter().all(|key| node.labels.contains_key(*key)) || !counts(pod, constraint, node) {
            continue;
        }
        let Some(value) = node.labels.get(&constraint.topology_key) else { continue };
        let here = info.pods.iter().filter(|other| {
            !other.deleting
                && other.key.namespace == pod.key.namespace
                && constraint.counts(&pod.labels, &other.labels)
        });
        *found.entry(value.clone()).or_default() += i64::try_from(here.count()).unwrap_or(i64::MAX);
    }
    let few = constraint.min_domains.is_some_and(|min| found.len() < min);
    let least = if few { 0 } else { found.values().min().copied().unwrap_or(0) };
    Places { counts: found, least, own: i64::from(constraint.counts(&pod.labels, &pod.labels)) }
}

pub(super) fn filter(cycle: &Cycle<'_>, node: &Node, _: &NodeInfo) -> Option<Refusal> {
    for (constraint, places) in hard(cycle.pod).zip(&cycle.spread) {
        let Some(value) = node.labels.get(&constraint.topology_key) else {
            return Some(Refusal::permanent(&format!("{REASON} (missing required label)")));
        };
        let here = places.counts.get(value).copied().unwrap_or(0);
        if here + places.own - places.least > constraint.max_skew {
            return Some(Refusal::resolvable(REASON));
        }
    }
    None
}
