//! Which pod to make or delete next. Pure.

use std::collections::BTreeMap;
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
    /// A pod was adopted that lacks the labels of its place.
    Label(Arc<Pod>, i64),
}

impl State {
    pub(super) fn parallel(&self) -> bool {
        &*self.set.spec.pod_management_policy == "Parallel"
    }

    fn ordinals(&self) -> std::ops::Range<i64> {
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

fn healthy(pod: &Pod) -> bool {
    &*pod.status.phase == "Running" && pod.ready() && !pod.metadata.deleting()
}

/// The next actions: one in order, or as many as possible in parallel.
pub(super) fn plan(state: &State, now: Timestamp) -> Vec<Action> {
    let mut actions = Vec::new();
    let seconds = state.set.spec.min_ready_seconds;
    for ordinal in state.ordinals() {
        match state.pods.get(&ordinal) {
            None => {
                let revision = state.revision_of(ordinal).to_owned();
                actions.push(Action::Create { ordinal, revision });
            }
            Some(pod) if pod.finished() && !pod.metadata.deleting() => {
                actions.push(Action::Delete(Arc::clone(pod)))
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
    let surplus = state.pods.iter().rev().filter(|(ordinal, _)| !state.ordinals().contains(ordinal));
    for (_, pod) in surplus {
        if pod.metadata.deleting() {
            if state.parallel() { continue } else { return actions }
        }
        actions.push(Action::Delete(Arc::clone(pod)));
        if !state.parallel() {
            return actions;
        }
    }
    if actions.is_empty() { plan_update(state, now).into_iter().collect() } else { actions }
}

/// The last pod of an old revision goes, once all behind it are new and healthy.
fn plan_update(state: &State, now: Timestamp) -> Option<Action> {
    if &*state.set.spec.update_strategy.r#type == "OnDelete" {
        return None;
    }
    for ordinal in (state.partition()..state.ordinals().end).rev() {
        let pod = state.pods.get(&ordinal)?;
        if pod.metadata.deleting() {
            return None;
        }
        if pod.metadata.label(HASH) != state.update {
            return Some(Action::Delete(Arc::clone(pod)));
        }
        if !healthy(pod) || !pod.available(state.set.spec.min_ready_seconds, now) {
            return None;
        }
    }
    None
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
    let rolled = &*state.set.spec.update_strategy.r#type != "OnDelete"
        && status.updated_replicas == status.replicas
        && status.ready_replicas == status.replicas;
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
                "metadata": {"name": name, "labels": {HASH: revision, POD_NAME: name}},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": if *ready { "True" } else { "False" }}]},
            });
            (*ordinal, Arc::new(serde_json::from_value(body).unwrap()))
        };
        State {
            set: Arc::new(serde_json::from_value(set).unwrap()),
            pods: pods.iter().map(pod).collect(),
            current: "old".to_owned(),
            update: "new".to_owned(),
        }
    }

    fn text(state: &State) -> Vec<String> {
        let show = |action: &Action| match action {
            Action::Create { ordinal, revision } => format!("+{ordinal}{revision}"),
            Action::Delete(pod) => format!("-{}", pod.metadata.name),
            Action::Label(pod, _) => format!("={}", pod.metadata.name),
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
        let lost = [(1, "old", "Running", true), (2, "new", "Running", true)];
        assert_eq!(text(&state(part, &lost)), ["+0old"], "below the partition the old revision returns");
        let status = plan_new_status(&state(json!({"replicas": 3}), &some), Timestamp::UNIX_EPOCH);
        assert_eq!(
            (status.current_replicas, status.updated_replicas, &*status.current_revision),
            (2, 1, "old")
        );
    }
}
