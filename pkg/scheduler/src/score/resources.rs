//! Room that is left, and how evenly it is used.

use super::{Look, MOST};
use crate::node::Node;
use crate::snapshot::NodeInfo;

const COUNTED: [&str; 2] = ["cpu", "memory"];

/// The share of free CPU and memory; containers that ask for nothing count as upstream's defaults for them.
pub(super) fn least_allocated(look: &Look<'_>, node: &Node, info: &NodeInfo) -> i64 {
    let (mut sum, mut counted) = (0, 0);
    for name in COUNTED {
        let total = node.allocatable.get(name);
        if total == 0 {
            continue;
        }
        let used = info.assumed.get(name).saturating_add(look.pod.assumed.get(name));
        sum += if used > total { 0 } else { (total - used) * MOST / total };
        counted += 1;
    }
    if counted == 0 { 0 } else { sum / counted }
}

/// Whether the pod makes the use of CPU and memory more even (towards 100) or less (towards 50).
pub(super) fn balance(look: &Look<'_>, node: &Node, info: &NodeInfo) -> i64 {
    let own = COUNTED.map(|name| look.pod.requests.get(name));
    if own == [0, 0] {
        return 0;
    }
    let before = COUNTED.map(|name| info.requested.get(name));
    let after = [before[0].saturating_add(own[0]), before[1].saturating_add(own[1])];
    MOST / 2 + (MOST / 2 + evenness(after, node) - evenness(before, node)) / 2
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a share between 0 and 1")]
fn evenness(used: [i64; 2], node: &Node) -> i64 {
    let totals = COUNTED.map(|name| node.allocatable.get(name));
    if totals.contains(&0) {
        return MOST;
    }
    let share = |at: usize| (used[at] as f64 / totals[at] as f64).min(1.0);
    let deviation = ((share(0) - share(1)) / 2.0).abs();
    ((1.0 - deviation) * MOST as f64) as i64
}
