//! Replacing pods of old revisions: by taking some away first, or, with a surge, by adding new ones first. Pure.

use std::sync::Arc;

use super::{HASH, Plan, State, wanted};
use crate::views::{IntOrString, Pod};

/// How many nodes may have two pods, and how many none.
fn limits(state: &State<'_>) -> (i64, i64) {
    let nodes = state.nodes.iter().filter(|node| wanted(state, node).0).count();
    let total = i64::try_from(nodes).unwrap_or(i64::MAX);
    let rolling = state.set.spec.update_strategy.rolling_update.as_ref();
    let of = |value: Option<&IntOrString>, default: i64| value.map_or(Some(default), |v| v.of(total, true));
    let surge = of(rolling.and_then(|r| r.max_surge.as_ref()), 0).unwrap_or(0);
    let missing = of(rolling.and_then(|r| r.max_unavailable.as_ref()), 1).unwrap_or(1);
    (surge, if surge == 0 && missing == 0 { 1 } else { missing })
}

fn surges(state: &State<'_>) -> bool {
    &*state.set.spec.update_strategy.r#type != "OnDelete" && limits(state).0 > 0
}

fn available(state: &State<'_>, pod: &Pod) -> bool {
    pod.available(state.set.spec.min_ready_seconds, state.now)
}

fn is_new(state: &State<'_>, pod: &Pod) -> bool {
    pod.metadata.label(HASH) == state.hash
}

/// Running pods of one node that are too many: all but the oldest, or with a surge all but one of the present and one
/// of an earlier revision, of which the latter stays only while the former cannot take over.
pub(super) fn plan_surplus(state: &State<'_>, mut running: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
    running.sort_by_key(|p| (p.spec.node_name.is_empty(), p.metadata.creation_timestamp));
    if !surges(state) {
        return running.into_iter().skip(1).collect();
    }
    let (mut new, mut old, mut surplus) = (None, None, Vec::new());
    for pod in running {
        let slot = if is_new(state, &pod) { &mut new } else { &mut old };
        if slot.is_none() { *slot = Some(pod) } else { surplus.push(pod) }
    }
    if let (Some(new), Some(old)) = (new, old)
        && (!old.ready() || available(state, &new))
    {
        surplus.push(old);
    }
    surplus
}

/// The pods of one node that are not on their way out; `None` when there are several of a kind.
type Pair = Option<(Option<Arc<Pod>>, Option<Arc<Pod>>)>;

fn pair(state: &State<'_>, pods: &[Arc<Pod>]) -> Pair {
    let (mut new, mut old) = (None, None);
    for pod in pods.iter().filter(|pod| !pod.metadata.deleting()) {
        let slot = if is_new(state, pod) { &mut new } else { &mut old };
        if slot.replace(Arc::clone(pod)).is_some() {
            return None;
        }
    }
    Some((new, old))
}

/// Which old pods go and which nodes get a second pod now.
pub(super) fn plan_update(state: &State<'_>, plan: &mut Plan) {
    let (surge, missing) = limits(state);
    let nodes = state.nodes.iter().filter(|node| wanted(state, node).0);
    let none = Vec::new();
    let pairs: Vec<_> = nodes
        .map(|node| {
            let name = &node.metadata.name;
            (name, pair(state, state.pods.get(name).unwrap_or(&none)))
        })
        .collect();
    if surge > 0 { surging(state, &pairs, surge, plan) } else { removing(state, &pairs, missing, plan) }
}

fn removing(state: &State<'_>, pairs: &[(&String, Pair)], limit: i64, plan: &mut Plan) {
    let mut unavailable = 0;
    let (mut dead, mut alive) = (Vec::new(), Vec::new());
    for (_, pair) in pairs {
        match pair {
            Some((Some(new), None)) => unavailable += i64::from(!available(state, new)),
            Some((None, Some(old))) if available(state, old) => alive.push(Arc::clone(old)),
            Some((None, Some(old))) => {
                unavailable += 1;
                dead.push(Arc::clone(old));
            }
            _ => unavailable += 1,
        }
    }
    let spare = usize::try_from(limit - unavailable).unwrap_or(0);
    plan.delete.extend(dead);
    plan.delete.extend(alive.into_iter().take(spare));
}

fn surging(state: &State<'_>, pairs: &[(&String, Pair)], limit: i64, plan: &mut Plan) {
    let mut surged = 0;
    let (mut free, mut candidates) = (Vec::new(), Vec::new());
    for (node, pair) in pairs {
        match pair {
            Some((_, None)) => {}
            Some((None, Some(old))) if available(state, old) => candidates.push((*node).clone()),
            // An old pod that does not serve costs nothing to replace.
            Some((None, Some(_))) => free.push((*node).clone()),
            Some((Some(new), Some(old))) if available(state, new) => plan.delete.push(Arc::clone(old)),
            Some((Some(_), Some(_))) | None => surged += 1,
        }
    }
    let spare = usize::try_from(limit - surged).unwrap_or(0);
    plan.create.extend(free);
    plan.create.extend(candidates.into_iter().take(spare));
}
