//! PodDisruptionBudgets: how many pods may be evicted now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use copepod_client::resources::POD_DISRUPTION_BUDGETS;
use copepod_client::{EventKind, ObjectKey, Outcome, WorkQueue};
use copepod_sys::clock;
use jiff::{SignedDuration, Timestamp};

use crate::context::{Context, SyncResult, enqueue};
use crate::status::plan_status;
use crate::step::{event, execute_all};
use crate::views::{BudgetStatus, Condition, Pod, PodDisruptionBudget, set_condition};

/// An evicted pod that is still there after this time was not deleted after all.
const EVICTION_WITHIN: SignedDuration = SignedDuration::from_mins(2);

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    enqueue(&context.caches.budgets, &queue);
    let (owner, pods) = (context.clone(), queue.clone());
    context.caches.pods.on_change(move |key, delta| {
        for budget in owner.caches.budgets.list_namespace(&key.namespace) {
            let selects = |pod: &Arc<Pod>| budget.spec.selector.compiled.matches(&pod.metadata.labels);
            if delta.old().is_some_and(selects) || selects(delta.object()) {
                pods.add(budget.metadata.key());
            }
        }
    });
    context.work(&queue, 1, sync);
}

async fn sync(context: Context, key: ObjectKey) -> SyncResult {
    let Some(budget) = context.caches.budgets.get_key(&key) else { return Ok(Outcome::Done) };
    let mut pods = context.caches.pods.list_namespace(&key.namespace);
    pods.retain(|p| !p.finished() && budget.spec.selector.compiled.matches(&p.metadata.labels));
    let now = clock::now();
    let expected = expected(&context, &budget, &pods);
    if let Err(why) = &expected {
        event(
            &context,
            (&POD_DISRUPTION_BUDGETS, &budget.metadata),
            EventKind::Warning,
            "CalculateExpectedPodCountFailed",
            why.clone(),
        );
    }
    let status = plan(&budget, &pods, expected, now);
    let step = plan_status(&POD_DISRUPTION_BUDGETS, &budget.metadata, &budget.status, &status);
    execute_all(&context, step.into_iter().collect()).await?;
    let next = status.disrupted_pods.values().min().map(|at| (*at + EVICTION_WITHIN).duration_since(now));
    Ok(next.map_or(Outcome::Done, |wait| Outcome::After(wait.unsigned_abs() + Duration::from_secs(1))))
}

/// How many pods there should be: those that are there for a plain number of `minAvailable`, else what their
/// controllers want.
fn expected(context: &Context, budget: &PodDisruptionBudget, pods: &[Arc<Pod>]) -> Result<i64, String> {
    let counted = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    if matches!(budget.spec.min_available, Some(crate::views::IntOrString::Int(_))) {
        return Ok(counted);
    }
    let mut seen = BTreeSet::new();
    let mut total = 0;
    for pod in pods {
        let Some(owner) = pod.metadata.controller() else {
            // A bare pod counts for itself.
            total += 1;
            continue;
        };
        if !seen.insert(owner.uid.clone()) {
            continue;
        }
        let namespace = &pod.metadata.namespace;
        let caches = &context.caches;
        let scale = match owner.kind.as_str() {
            "ReplicaSet" => caches.replica_sets.get(namespace, &owner.name).map(|set| {
                let deployment = set.metadata.controller().filter(|o| o.kind == "Deployment");
                let deployment = deployment.and_then(|o| caches.deployments.get(namespace, &o.name));
                deployment.map_or_else(
                    || (set.replicas(), owner.uid.clone()),
                    |d| (d.replicas(), d.metadata.uid.clone()),
                )
            }),
            "ReplicationController" => caches
                .replication_controllers
                .get(namespace, &owner.name)
                .map(|rc| (rc.0.replicas(), owner.uid.clone())),
            "StatefulSet" => caches
                .stateful_sets
                .get(namespace, &owner.name)
                .map(|s| (s.spec.replicas.unwrap_or(1), owner.uid.clone())),
            _ => None,
        };
        let (replicas, uid) = scale.ok_or_else(|| {
            format!(
                "found no controllers for pod {:?} with a scale (owner {} {})",
                pod.metadata.name, owner.kind, owner.name
            )
        })?;
        // Two ReplicaSets of one Deployment count once.
        if uid == owner.uid || seen.insert(uid) {
            total += replicas;
        }
    }
    Ok(total)
}

fn plan(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    expected: Result<i64, String>,
    now: Timestamp,
) -> BudgetStatus {
    let failed = expected.clone().err();
    let expected = expected.unwrap_or_else(|_| i64::try_from(pods.len()).unwrap_or(i64::MAX));
    let desired = match (&budget.spec.min_available, &budget.spec.max_unavailable) {
        (Some(min), _) => min.of(expected, true).unwrap_or(expected),
        (None, Some(max)) => (expected - max.of(expected, true).unwrap_or(0)).max(0),
        (None, None) => 0,
    };
    let mut disrupted: BTreeMap<String, Timestamp> = budget.status.disrupted_pods.clone();
    disrupted.retain(|name, at| {
        let pod = pods.iter().find(|p| p.metadata.name == *name);
        pod.is_some_and(|p| !p.metadata.deleting()) && *at + EVICTION_WITHIN > now
    });
    let healthy =
        |p: &&Arc<Pod>| p.ready() && !p.metadata.deleting() && !disrupted.contains_key(&p.metadata.name);
    let current = i64::try_from(pods.iter().filter(healthy).count()).unwrap_or(i64::MAX);
    let allowed = if failed.is_some() || expected <= 0 { 0 } else { (current - desired).max(0) };
    let (reason, message) = match failed {
        Some(why) => ("SyncFailed", why),
        None if allowed > 0 => ("SufficientPods", String::new()),
        None => ("InsufficientPods", String::new()),
    };
    let mut conditions = budget.status.conditions.clone();
    let mut condition = Condition::new("DisruptionAllowed", allowed > 0, reason, message);
    condition.observed_generation = Some(budget.metadata.generation);
    set_condition(&mut conditions, condition, now);
    BudgetStatus {
        observed_generation: budget.metadata.generation,
        disrupted_pods: disrupted,
        disruptions_allowed: allowed,
        current_healthy: current,
        desired_healthy: desired,
        expected_pods: expected,
        conditions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(name: &str, ready: bool) -> Arc<Pod> {
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]});
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).unwrap())
    }

    #[test]
    fn budgets_count_the_healthy_and_the_evicted() {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(10);
        let pods = [pod("a", true), pod("b", true), pod("c", true), pod("d", false)];
        let run = |spec: Value, status: Value| {
            let budget: PodDisruptionBudget = serde_json::from_value(
                json!({"metadata": {"generation": 1}, "spec": spec, "status": status}),
            )
            .unwrap();
            let status = plan(&budget, &pods, Ok(4), now);
            (status.desired_healthy, status.current_healthy, status.disruptions_allowed)
        };
        assert_eq!(run(json!({"minAvailable": 2}), json!({})), (2, 3, 1));
        assert_eq!(run(json!({"minAvailable": "80%"}), json!({})), (4, 3, 0));
        assert_eq!(run(json!({"maxUnavailable": "30%"}), json!({})), (2, 3, 1));
        let evicted = |minutes: i64| json!({"disruptedPods": {"a": (now - SignedDuration::from_mins(minutes)).to_string()}});
        assert_eq!(run(json!({"minAvailable": 2}), evicted(1)), (2, 2, 0));
        assert_eq!(run(json!({"minAvailable": 2}), evicted(3)), (2, 3, 1), "it was not deleted after all");
    }
}
