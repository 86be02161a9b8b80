//! A Deployment whose size changed in the middle of a rollout: every ReplicaSet takes its share. Pure.

use std::sync::Arc;

use super::revision::{DESIRED, MAX};
use super::{Resize, State};
use crate::template::by_age;
use crate::views::ReplicaSet;

fn remembered(set: &ReplicaSet, key: &str) -> Option<i64> {
    set.metadata.annotation(key)?.parse().ok()
}

/// Whether a ReplicaSet remembers another size than the Deployment has.
pub(super) fn is_due(state: &State) -> bool {
    let desired = state.deployment.replicas();
    let mut active = state.all().filter(|s| s.replicas() > 0);
    active.any(|set| remembered(set, DESIRED).is_some_and(|was| was != desired))
}

pub(super) fn to_zero(sets: &[Arc<ReplicaSet>]) -> Vec<Resize> {
    let active = sets.iter().filter(|s| s.replicas() > 0);
    active.map(|s| Resize { name: s.metadata.name.clone(), from: s.replicas(), to: 0 }).collect()
}

/// New sizes. Those that stay are listed too, since they have to remember the new size of the Deployment.
pub(super) fn plan(state: &State) -> Vec<Resize> {
    let desired = state.deployment.replicas();
    let keep =
        |set: &Arc<ReplicaSet>, to: i64| Resize { name: set.metadata.name.clone(), from: set.replicas(), to };
    let mut active: Vec<_> = state.all().filter(|s| s.replicas() > 0).collect();
    let only = match active.as_slice() {
        [] => state.new.as_ref().or_else(|| state.old.last()),
        [one] => Some(*one),
        _ => None,
    };
    if let Some(set) = only {
        let same = set.replicas() == desired && remembered(set, DESIRED).is_none_or(|was| was == desired);
        return if same { Vec::new() } else { vec![keep(set, desired)] };
    }
    let saturated = state.new.as_ref().is_some_and(|set| {
        set.replicas() == desired
            && remembered(set, DESIRED) == Some(desired)
            && set.status.available_replicas == desired
    });
    if saturated {
        return to_zero(&state.old);
    }
    if !state.deployment.rolling() || active.is_empty() {
        return Vec::new();
    }
    let surge = state.deployment.bounds().0;
    let allowed = if desired > 0 { desired + surge } else { 0 };
    let total: i64 = active.iter().map(|s| s.replicas()).sum();
    let change = allowed - total;
    // The largest first; of equals the newer grow and the older shrink first.
    active.sort_by(|a, b| {
        let age = by_age(&a.metadata, &b.metadata);
        b.replicas().cmp(&a.replicas()).then(if change > 0 { age.reverse() } else { age })
    });
    let mut given = 0;
    let mut sizes = Vec::new();
    for set in &active {
        let share = share(state, set, desired, surge);
        let part = if change > 0 { share.min(change - given) } else { share.max(change - given) };
        let part = if change == 0 { 0 } else { part };
        given += part;
        sizes.push(set.replicas() + part);
    }
    if let Some(first) = sizes.first_mut() {
        *first = (*first + change - given).max(0);
    }
    active.iter().zip(sizes).map(|(set, size)| keep(set, size)).collect()
}

/// By how much a ReplicaSet would change if it kept its part of the whole.
fn share(state: &State, set: &ReplicaSet, desired: i64, surge: i64) -> i64 {
    if desired == 0 {
        return -set.replicas();
    }
    let was =
        remembered(set, MAX).filter(|n| *n > 0).unwrap_or_else(|| state.deployment.status.replicas.max(1));
    let exact = set.replicas() * (desired + surge);
    // Rounded to the nearest, halves away from zero.
    (exact * 2 + was).div_euclid(was * 2) - set.replicas()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shares_follow_size() {
        let set = |name: &str, replicas: i64| -> Arc<ReplicaSet> {
            let body = json!({
                "metadata": {"name": name, "annotations": {DESIRED: "10", MAX: "13"}},
                "spec": {"replicas": replicas}, "status": {"availableReplicas": 0},
            });
            Arc::new(serde_json::from_value(body).unwrap())
        };
        let deployment = json!({"spec": {"replicas": 30, "strategy": {
            "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2},
        }}});
        let state = State {
            deployment: Arc::new(serde_json::from_value(deployment).unwrap()),
            new: Some(set("new", 5)),
            old: vec![set("old", 8)],
        };
        assert!(is_due(&state));
        let sizes: Vec<_> = plan(&state).into_iter().map(|r| (r.name, r.to)).collect();
        assert_eq!(sizes, [("old".to_owned(), 20), ("new".to_owned(), 13)]);
    }
}
