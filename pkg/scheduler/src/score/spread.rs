//! Soft spread constraints: how crowded a node's places are.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Look;
use crate::node::Node;
use crate::pod::Pod;
use crate::snapshot::{NodeInfo, Snapshot};

/// Matching pods per place, for one soft constraint.
#[derive(Debug)]
pub(super) struct Soft {
    key: String,
    counts: BTreeMap<String, i64>,
    /// More places make each of them matter more.
    weight: f64,
    skew: i64,
}

pub(super) fn soft(pod: &Pod, snapshot: &Snapshot, fits: &[Arc<Node>]) -> Vec<Soft> {
    let soft = pod.spread.iter().filter(|s| &*s.when_unsatisfiable == "ScheduleAnyway");
    let one = |constraint: &crate::pod::Spread| {
        let key = &constraint.topology_key;
        let places = fits.iter().filter_map(|node| node.labels.get(key));
        let mut counts: BTreeMap<String, i64> = places.map(|value| (value.clone(), 0)).collect();
        for (node, info) in snapshot.nodes() {
            let Some(count) = node.labels.get(key).and_then(|value| counts.get_mut(value)) else { continue };
            let here = info.pods.iter().filter(|other| {
                !other.deleting
                    && other.key.namespace == pod.key.namespace
                    && constraint.counts(&pod.labels, &other.labels)
            });
            *count += i64::try_from(here.count()).unwrap_or(i64::MAX);
        }
        let size = u32::try_from(counts.len()).unwrap_or(u32::MAX);
        let weight = (f64::from(size) + 2.0).ln();
        Soft { key: key.clone(), counts, weight, skew: constraint.max_skew }
    };
    soft.map(one).collect()
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "small counts")]
pub(super) fn crowding(look: &Look<'_>, node: &Node, _: &NodeInfo) -> i64 {
    let one = |soft: &Soft| {
        let count = node.labels.get(&soft.key).and_then(|value| soft.counts.get(value));
        count.map_or(0.0, |count| *count as f64 * soft.weight + (soft.skew - 1) as f64)
    };
    look.spread.iter().map(one).sum::<f64>().round() as i64
}
