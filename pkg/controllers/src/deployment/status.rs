//! What a Deployment's status says. Pure.

use copepod_client::ClientError;
use jiff::{SignedDuration, Timestamp};

use super::State;
use crate::views::{Condition, Deployment, DeploymentStatus, ReplicaSet, condition, set_condition};

const PROGRESSING: &str = "Progressing";
const DONE: &str = "NewReplicaSetAvailable";
const LATE: &str = "ProgressDeadlineExceeded";
/// A deadline so large stands for none.
const NO_DEADLINE: i64 = i32::MAX as i64;

/// The numbers, with the old conditions.
pub(super) fn count(state: &State) -> DeploymentStatus {
    let old = &state.deployment.status;
    let available = state.sum(|s| s.status.available_replicas);
    DeploymentStatus {
        observed_generation: state.deployment.metadata.generation,
        replicas: state.sum(|s| s.status.replicas),
        updated_replicas: state.new.as_ref().map_or(0, |s| s.status.replicas),
        ready_replicas: state.sum(|s| s.status.ready_replicas),
        available_replicas: available,
        unavailable_replicas: (state.sum(ReplicaSet::replicas) - available).max(0),
        terminating_replicas: Some(state.sum(|s| s.status.terminating_replicas.unwrap_or(0))),
        collision_count: old.collision_count,
        conditions: old.conditions.clone(),
    }
}

/// Whether everything is new and there.
pub(super) fn complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let desired = deployment.replicas();
    status.updated_replicas == desired
        && status.replicas == desired
        && status.available_replicas == desired
        && status.observed_generation >= deployment.metadata.generation
}

pub(super) fn plan(state: &State, failure: Option<&ClientError>, now: Timestamp) -> DeploymentStatus {
    let deployment = &state.deployment;
    let mut status = count(state);
    let enough = status.available_replicas >= deployment.replicas() - deployment.bounds().1;
    let (reason, text) = if enough {
        ("MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    let mut conditions = std::mem::take(&mut status.conditions);
    set(&mut conditions, Condition::new("Available", enough, reason, text), now);
    if let Some(progress) = progress(state, &status, &conditions, failure, now) {
        set(&mut conditions, progress, now);
    }
    if !has_deadline(deployment) {
        conditions.retain(|c| c.r#type != PROGRESSING);
    }
    let failed =
        state.new.iter().chain(&state.old).find_map(|s| condition(&s.status.conditions, "ReplicaFailure"));
    match failed {
        Some(c) => {
            set(&mut conditions, Condition::new("ReplicaFailure", true, &c.reason, c.message.clone()), now)
        }
        None => conditions.retain(|c| c.r#type != "ReplicaFailure"),
    }
    status.conditions = conditions;
    status
}

fn has_deadline(deployment: &Deployment) -> bool {
    deployment.spec.progress_deadline_seconds.is_some_and(|s| s != NO_DEADLINE)
}

/// Deployments also tell when a condition was last updated; an unchanged condition is not updated.
fn set(conditions: &mut Vec<Condition>, mut new: Condition, now: Timestamp) {
    let old = condition(conditions, &new.r#type);
    if old.is_some_and(|o| {
        o.status == new.status && o.reason == new.reason && new.reason != "ReplicaSetUpdated"
    }) {
        return;
    }
    new.last_update_time = Some(now);
    set_condition(conditions, new, now);
}

/// The new Progressing condition, if it changes.
fn progress(
    state: &State,
    status: &DeploymentStatus,
    conditions: &[Condition],
    failure: Option<&ClientError>,
    now: Timestamp,
) -> Option<Condition> {
    let deployment = &state.deployment;
    let before = condition(conditions, PROGRESSING);
    if deployment.spec.paused {
        let told = before.is_some_and(|c| c.reason == "DeploymentPaused" || c.reason == LATE);
        return (!told).then(|| unknown("DeploymentPaused", "Deployment is paused"));
    }
    if before.is_some_and(|c| c.reason == "DeploymentPaused") {
        return Some(unknown("DeploymentResumed", "Deployment is resumed"));
    }
    if let Some(error) = failure
        && state.new.is_none()
    {
        return Some(Condition::new(PROGRESSING, false, "ReplicaSetCreateError", error.to_string()));
    }
    let name = state.new.as_ref().map_or(&deployment.metadata.name, |s| &s.metadata.name);
    let what = if state.new.is_some() { "ReplicaSet" } else { "Deployment" };
    let settled = before.is_some_and(|c| c.reason == DONE) && status.replicas == status.updated_replicas;
    if settled {
        return None;
    }
    if complete(deployment, status) {
        let text = format!("{what} {name:?} has successfully progressed.");
        return Some(Condition::new(PROGRESSING, true, DONE, text));
    }
    if advanced(&deployment.status, status) {
        return Some(Condition::new(
            PROGRESSING,
            true,
            "ReplicaSetUpdated",
            format!("{what} {name:?} is progressing."),
        ));
    }
    match before {
        None if state.new.is_some() => Some(Condition::new(
            PROGRESSING,
            true,
            "NewReplicaSetCreated",
            format!("Created new replica set {name:?}"),
        )),
        Some(c) if c.reason != LATE && left(deployment, c, now).is_some_and(|s| s <= 0) => Some(
            Condition::new(PROGRESSING, false, LATE, format!("{what} {name:?} has timed out progressing.")),
        ),
        _ => None,
    }
}

fn unknown(reason: &str, message: &str) -> Condition {
    Condition { status: "Unknown".to_owned(), ..Condition::new(PROGRESSING, true, reason, message) }
}

fn advanced(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    new.updated_replicas > old.updated_replicas
        || new.replicas - new.updated_replicas < old.replicas - old.updated_replicas
        || new.ready_replicas > old.ready_replicas
        || new.available_replicas > old.available_replicas
}

/// Seconds until the rollout counts as failed.
fn left(deployment: &Deployment, progressing: &Condition, now: Timestamp) -> Option<i64> {
    let deadline = deployment.spec.progress_deadline_seconds.filter(|s| *s != NO_DEADLINE)?;
    let since = progressing.last_update_time?;
    Some((since + SignedDuration::from_secs(deadline)).duration_since(now).as_secs())
}

/// In how many seconds to look whether the rollout has failed.
pub(super) fn deadline(deployment: &Deployment, status: &DeploymentStatus, now: Timestamp) -> Option<u64> {
    if deployment.spec.paused || complete(deployment, status) {
        return None;
    }
    let progressing =
        condition(&status.conditions, PROGRESSING).filter(|c| c.reason != LATE && c.reason != DONE)?;
    left(deployment, progressing, now).map(|s| u64::try_from(s).unwrap_or(0) + 1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn state(status: &serde_json::Value, available: i64) -> State {
        let deployment = json!({
            "metadata": {"name": "d", "generation": 1}, "status": status,
            "spec": {"replicas": 2, "progressDeadlineSeconds": 60, "strategy": {"type": "RollingUpdate"}},
        });
        let set = json!({
            "metadata": {"name": "d-x"}, "spec": {"replicas": 2},
            "status": {"replicas": 2, "readyReplicas": available, "availableReplicas": available},
        });
        State {
            deployment: Arc::new(serde_json::from_value(deployment).unwrap()),
            new: Some(Arc::new(serde_json::from_value(set).unwrap())),
            old: Vec::new(),
        }
    }

    #[test]
    fn a_rollout_progresses_completes_or_runs_out_of_time() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let first = plan(&state(&json!({}), 0), None, now);
        let reason = |s: &DeploymentStatus| condition(&s.conditions, PROGRESSING).unwrap().reason.clone();
        assert_eq!(reason(&first), "ReplicaSetUpdated");
        assert_eq!(condition(&first.conditions, "Available").unwrap().status, "False");
        let then = serde_json::to_value(&first).unwrap();
        let late = plan(&state(&then, 0), None, now + SignedDuration::from_secs(61));
        assert_eq!(reason(&late), LATE);
        let done = plan(&state(&then, 2), None, now + SignedDuration::from_secs(5));
        assert_eq!(reason(&done), DONE);
        let message = &condition(&done.conditions, PROGRESSING).unwrap().message;
        assert_eq!(message, "ReplicaSet \"d-x\" has successfully progressed.");
        let again = serde_json::to_value(&done).unwrap();
        assert_eq!(
            plan(&state(&again, 2), None, now + SignedDuration::from_secs(99)),
            done,
            "nothing more to say"
        );
    }
}
