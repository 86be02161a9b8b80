//! Rolling updates: how far the newest ReplicaSet may grow and the old ones may shrink. Pure.

use super::{Resize, State};
use crate::views::ReplicaSet;

/// The size the newest ReplicaSet should have now.
pub(super) fn new_size(state: &State) -> i64 {
    let (desired, surge) = (state.deployment.replicas(), state.deployment.bounds().0);
    let have = state.new.as_ref().map_or(0, |set| set.replicas());
    if !state.deployment.rolling() || have > desired {
        return desired;
    }
    let room = desired + surge - state.sum(ReplicaSet::replicas);
    have + room.max(0).min(desired - have)
}

pub(super) fn plan_new(state: &State) -> Vec<Resize> {
    let Some(set) = &state.new else { return Vec::new() };
    resize(set, new_size(state)).into_iter().collect()
}

fn resize(set: &ReplicaSet, to: i64) -> Option<Resize> {
    let from = set.replicas();
    (from != to).then(|| Resize { name: set.metadata.name.clone(), from, to })
}

/// Shrinks old ReplicaSets as far as availability allows: pods that are not available go first, for they count for
/// nothing.
pub(super) fn plan_old(state: &State) -> Vec<Resize> {
    let desired = state.deployment.replicas();
    let least = desired - state.deployment.bounds().1;
    let starting = state.new.as_ref().map_or(0, |s| s.replicas() - s.status.available_replicas);
    let surplus = state.sum(ReplicaSet::replicas) - least - starting;
    let mut sizes: Vec<i64> = state.old.iter().map(|s| s.replicas()).collect();
    if surplus <= 0 || sizes.iter().sum::<i64>() == 0 {
        return Vec::new();
    }
    let mut left = surplus;
    for (set, size) in state.old.iter().zip(&mut sizes) {
        let dead = (*size - set.status.available_replicas).max(0).min(left);
        *size -= dead;
        left -= dead;
    }
    let mut spare = state.sum(|s| s.status.available_replicas) - least;
    for (set, size) in state.old.iter().zip(&mut sizes) {
        let gone = (*size).min(spare).max(0).min(set.replicas());
        *size -= gone;
        spare -= gone;
    }
    state.old.iter().zip(sizes).filter_map(|(set, size)| resize(set, size)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    pub(super) fn set(name: &str, replicas: i64, available: i64) -> Arc<ReplicaSet> {
        let body = json!({
            "metadata": {"name": name}, "spec": {"replicas": replicas},
            "status": {"replicas": replicas, "availableReplicas": available, "readyReplicas": available},
        });
        Arc::new(serde_json::from_value(body).unwrap())
    }

    fn state(replicas: i64, surge: Value, unavailable: Value, new: (i64, i64), old: &[(i64, i64)]) -> State {
        let body = json!({"spec": {"replicas": replicas, "strategy": {
            "type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
        }}});
        let old = old.iter().enumerate().map(|(n, (r, a))| set(&format!("old{n}"), *r, *a)).collect();
        State {
            deployment: Arc::new(serde_json::from_value(body).unwrap()),
            new: Some(set("new", new.0, new.1)),
            old,
        }
    }

    fn sizes(resizes: &[Resize]) -> Vec<(String, i64)> {
        resizes.iter().map(|r| (r.name.clone(), r.to)).collect()
    }

    #[test]
    fn growth_stays_within_the_surge() {
        let s = state(10, json!(3), json!(2), (0, 0), &[(10, 10)]);
        assert_eq!(sizes(&plan_new(&s)), [("new".to_owned(), 3)]);
        let s = state(10, json!("25%"), json!("25%"), (3, 0), &[(10, 10)]);
        assert!(plan_new(&s).is_empty());
        let s = state(2, json!(1), json!(0), (4, 4), &[]);
        assert_eq!(sizes(&plan_new(&s)), [("new".to_owned(), 2)], "too large");
    }

    #[test]
    fn old_sets_shrink_as_far_as_availability_allows() {
        let s = state(10, json!(3), json!(2), (3, 0), &[(10, 10)]);
        assert_eq!(sizes(&plan_old(&s)), [("old0".to_owned(), 8)]);
        let s = state(10, json!(3), json!(2), (5, 5), &[(8, 8)]);
        assert_eq!(sizes(&plan_old(&s)), [("old0".to_owned(), 3)]);
        let s = state(10, json!(3), json!(2), (3, 0), &[(4, 0), (6, 6)]);
        assert_eq!(sizes(&plan_old(&s)), [("old0".to_owned(), 2)], "what is not available goes first");
        let s = state(10, json!(3), json!(2), (5, 0), &[(8, 8)]);
        assert!(plan_old(&s).is_empty());
    }
}
