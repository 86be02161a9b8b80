//! Which pod to make or delete next. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::POD_NAME;
use crate::history::HASH;
use crate::views::{Pod, StatefulSet, StatefulSetStatus};

/// What is decided from.
#[derive(Debug)]
pub(super) struct State {
    pub(super) set: Arc<StatefulSet>,
    /// Pods by ordinal.
    pub(super) pods: BTreeMap<i64, Arc<Pod>>,
    /// Ordinals with a claim that goes with an earlier pod.
    pub(super) stale: BTreeSet<i64>,
    /// Ordinals that lack a claim.
    pub(super) bare: BTreeSet<i64>,
    /// Name of the revision before the rollout.
    pub(super) current: String,
    /// Name of the revision of the rollout.
    pub(super) update: String,
}

/// One thing to do.
#[derive(Debug, Clone)]
pub(super) enum Action {
    Create {
        ordinal: i64,
        revision: String,
    },
    Delete(Arc<Pod>),
    /// A pod waits for claims that somebody deleted.
    Claims(i64),
    /// A pod was adopted that lacks the labels of its place.
    Label(Arc<Pod>, i64),
}

impl State {
    pub(super) fn parallel(&self) -> bool {
        &*self.set.spec.pod_management_policy == "Parallel"
    }

    pub(super) fn ordinals(&self) -> std::ops::Range<i64> {
        let first = self.set.spec.ordinals.as_ref().map_or(0, |o| o.start);
        first..first + self.set.spec.replicas.unwrap_or(1)
    }

    fn partition(&self) -> i64 {
        let rolling = self.set.spec.update_strategy.rolling_update.as_ref();
        self.ordinals().start + rolling.and_then(|r| r.partition).unwrap_or(0)
    }

    /// A new pod below the partition gets the old revision.
    fn revision_of(&self, ordinal: i64) -> &str {
        let old = &*self.set.spec.update_strategy.r#type != "OnDelete" && ordinal < self.partition();
        if old { &self.current } else { &self.update }
    }
}

impl State {
    fn available(&self, pod: &Pod, now: Timestamp) -> bool {
        !pod.metadata.deleting() && pod.available(self.set.spec.min_ready_seconds, now)
    }
}

fn healthy(pod: &Pod) -> bool {
    &*pod.status.phase == "Running" && pod.ready() && !pod.metadata.deleting()
}

/// The next actions: one in order, or as many as possible in parallel.
pub(super) fn plan(state: &State, now: Timestamp) -> Vec<Action> {
    let mut actions = Vec::new();
    let seconds = state.set.spec.min_ready_seconds;
    for ordinal in state.ordinals() {
        match state.pods.get(&ordinal) {
            None if state.stale.contains(&ordinal) => {
                if state.parallel() {
                    continue;
                } else {
                    return actions;
                }
            }
            None => {
                let revision = state.revision_of(ordinal).to_owned();
                actions.push(Action::Create { ordinal, revision });
            }
            Some(pod) if pod.finished() && !pod.metadata.deleting() => {
                actions.push(Action::Delete(Arc::clone(pod)))
            }
            Some(pod) if &*pod.status.phase == "Pending" && state.bare.contains(&ordinal) => {
                actions.push(Action::Claims(ordinal));
            }
            Some(pod) if pod.metadata.label(POD_NAME).is_empty() && !pod.metadata.deleting() => {
                actions.push(Action::Label(Arc::clone(pod), ordinal));
            }
            Some(pod) if !(state.parallel() || healthy(pod) && pod.available(seconds, now)) => {
                return actions;
            }
            Some(_) => continue,
        }
        if !state.parallel() {
            return actions;
        }
    }
    let surplus: Vec<_> =
        state.pods.iter().filter(|(ordinal, _)| !state.ordinals().contains(ordinal)).collect();
    // A pod that does not serve may hold back those before it, but not itself.
    let first = surplus.iter().map(|(_, pod)| pod).find(|pod| !state.available(pod, now));
    for (_, pod) in surplus.iter().rev() {
        if state.parallel() {
            if !pod.metadata.deleting() {
                actions.push(Action::Delete(Arc::clone(pod)));
            }
            continue;
        }
        let itself = first.is_some_and(|first| first.metadata.uid == pod.metadata.uid);
        if !pod.metadata.deleting() && (itself || state.available(pod, now)) {
            actions.push(Action::Delete(Arc::clone(pod)));
        }
        return actions;
    }
    if actions.is_empty() { plan_update(state, now) } else { actions }
}

/// The pods of old revisions that go now: the last ones first, and never more than may be missing at a time.
fn plan_update(state: &State, now: Timestamp) -> Vec<Action> {
    if &*state.set.spec.update_strategy.r#type == "OnDelete" {
        return Vec::new();
    }
    let rolling = state.set.spec.update_strategy.rolling_update.as_ref();
    let replicas = state.ordinals().end - state.ordinals().start;
    let limit = rolling.and_then(|r| r.max_unavailable.as_ref()).map_or(Some(1), |m| m.of(replicas, false));
    let limit = usize::try_from(limit.unwrap_or(1).max(1)).unwrap_or(usize::MAX);
    let pods: Vec<_> = state.ordinals().rev().map(|ordinal| (ordinal, state.pods.get(&ordinal))).collect();
    let missing = pods.iter().filter(|(_, pod)| pod.is_none_or(|pod| !state.available(pod, now))).count();
    let old = || {
        let present = pods.iter().filter(|(ordinal, _)| *ordinal >= state.partition());
        let present = present.filter_map(|(_, pod)| *pod).filter(|pod| !pod.metadata.deleting());
        present.filter(|pod| pod.metadata.label(HASH) != state.update).cloned()
    };
    let spare = limit.saturating_sub(missing);
    if !state.parallel() {
        return old().take(spare).map(Action::Delete).collect();
    }
    // Those that do not serve cost nothing.
    let (serving, dead): (Vec<_>, Vec<_>) = old().partition(|pod| state.available(pod, now));
    dead.into_iter().chain(serving.into_iter().take(spare)).map(Action::Delete).collect()
}

/// The numbers; a rollout that has reached every pod makes its revision the current one.
pub(super) fn plan_new_status(state: &State, now: Timestamp) -> StatefulSetStatus {
    let seconds = state.set.spec.min_ready_seconds;
    let count = |test: &dyn Fn(&Pod) -> bool| {
        i64::try_from(state.pods.values().filter(|p| test(p)).count()).unwrap_or(i64::MAX)
    };
    let running = |p: &Pod| &*p.status.phase == "Running" && p.ready();
    let of = |p: &Pod, revision: &str| !p.metadata.deleting() && p.metadata.label(HASH) == revision;
    let mut status = StatefulSetStatus {
        observed_generation: state.set.metadata.generation,
        replicas: count(&|_| true),
        ready_replicas: count(&running),
        available_replicas: count(&|p| running(p) && p.available(seconds, now)),
        current_replicas: count(&|p| of(p, &state.current)),
        updated_replicas: count(&|p| of(p, &state.update)),
        current_revision: state.current.clone(),
        update_revision: state.update.clone(),
        collision_count: Some(state.set.status.collision_count.unwrap_or(0)),
        conditions: state.set.status.conditions.clone(),
    };
    let replicas = state.set.spec.replicas.unwrap_or(1);
    let rolled =
        [status.updated_replicas, status.ready_replicas, status.replicas].iter().all(|n| *n == replicas);
    if rolled {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn state(spec: Value, pods: &[(i64, &str, &str, bool)]) -> State {
        let set = json!({"metadata": {"name": "web"}, "spec": spec});
        let pod = |(ordinal, revision, phase, ready): &(i64, &str, &str, bool)| {
            let name = format!("web-{ordinal}");
            let body = json!({
                "metadata": {"name": name, "uid": name, "labels": {HASH: revision, POD_NAME: name}},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": if *ready { "True" } else { "False" }}]},
            });
            (*ordinal, Arc::new(serde_json::from_value(body).unwrap()))
        };
        State {
            set: Arc::new(serde_json::from_value(set).unwrap()),
            pods: pods.iter().map(pod).collect(),
            stale: BTreeSet::new(),
            bare: BTreeSet::new(),
            current: "old".to_owned(),
            update: "new".to_owned(),
        }
    }

    fn text(state: &State) -> Vec<String> {
        let show = |action: &Action| match action {
            Action::Create { ordinal, revision } => format!("+{ordinal}{revision}"),
            Action::Delete(pod) => format!("-{}", pod.metadata.name),
            Action::Label(pod, _) => format!("={}", pod.metadata.name),
            Action::Claims(ordinal) => format!("c{ordinal}"),
        };
        plan(state, Timestamp::UNIX_EPOCH).iter().map(show).collect()
    }

    #[test]
    fn pods_come_and_go_in_order() {
        let run = |replicas: i64, pods: &[(i64, &str, &str, bool)]| {
            text(&state(json!({"replicas": replicas}), pods))
        };
        assert_eq!(run(3, &[]), ["+0new"]);
        let none: [String; 0] = [];
        assert_eq!(run(3, &[(0, "new", "Running", false)]), none, "waits for the first");
        assert_eq!(run(3, &[(0, "new", "Running", true)]), ["+1new"]);
        assert_eq!(run(1, &[(0, "new", "Failed", false)]), ["-web-0"]);
        let three = [(0, "new", "Running", true), (1, "new", "Running", true), (2, "new", "Running", true)];
        assert_eq!(run(1, &three), ["-web-2"]);
        let sick = [(0, "new", "Running", true), (1, "new", "Running", true), (2, "new", "Running", false)];
        assert_eq!(run(1, &sick), ["-web-2"], "one that does not serve does not hold itself");
        let mut waits = state(json!({"replicas": 1}), &[]);
        waits.stale.insert(0);
        assert_eq!(text(&waits), none, "its claim goes first");
        let parallel = state(json!({"replicas": 3, "podManagementPolicy": "Parallel"}), &[]);
        assert_eq!(text(&parallel), ["+0new", "+1new", "+2new"]);
    }

    #[test]
    fn updates_go_backwards_down_to_the_partition() {
        let old = [(0, "old", "Running", true), (1, "old", "Running", true), (2, "old", "Running", true)];
        assert_eq!(text(&state(json!({"replicas": 3}), &old)), ["-web-2"]);
        let part = json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
        let some = [(0, "old", "Running", true), (1, "old", "Running", true), (2, "new", "Running", true)];
        let none: [String; 0] = [];
        assert_eq!(text(&state(part.clone(), &some)), none);
        let two = json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}});
        assert_eq!(text(&state(two.clone(), &old)), ["-web-2", "-web-1"]);
        let sick = [(0, "old", "Running", false), (1, "old", "Running", true), (2, "new", "Running", true)];
        let mut parallel = two;
        parallel["podManagementPolicy"] = json!("Parallel");
        assert_eq!(text(&state(parallel, &sick)), ["-web-0", "-web-1"], "the dead first");
        let lost = [(1, "old", "Running", true), (2, "new", "Running", true)];
        assert_eq!(text(&state(part, &lost)), ["+0old"], "below the partition the old revision returns");
        let status = plan_new_status(&state(json!({"replicas": 3}), &some), Timestamp::UNIX_EPOCH);
        assert_eq!(
            (status.current_replicas, status.updated_replicas, &*status.current_revision),
            (2, 1, "old")
        );
    }
}
