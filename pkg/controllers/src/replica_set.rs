//! ReplicaSets and ReplicationControllers: as many pods as desired, one implementation for both.

use std::sync::Arc;

use copepod_client::resources::{PODS, REPLICA_SETS, REPLICATION_CONTROLLERS};
use copepod_client::{ClientError, EventKind, Informer, ObjectKey, Outcome, ResourceRef, WorkQueue};
use copepod_sys::clock;
use jiff::Timestamp;

use crate::context::{Context, SyncResult, enqueue, enqueue_owner};
use crate::ownership::{Claimant, controller_reference, plan_claim};
use crate::status::plan_status;
use crate::step::{Step, event, execute, execute_all, execute_slow_start};
use crate::template::pod_from;
use crate::views::{Condition, HasMeta, Pod, ReplicaSet, ReplicaSetStatus, set_condition};

/// At most so many pods are made or deleted in one go.
const BURST: usize = 500;
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Starts the ReplicaSet controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    enqueue(&context.caches.replica_sets, &queue);
    follow_pods(context, &queue, &REPLICA_SETS, |context, pod| {
        let sets = context.caches.replica_sets.list_namespace(&pod.metadata.namespace);
        matching(sets.iter().map(|s| &**s), pod)
    });
    context.work(&queue, 4, |context, key| async move {
        let Some(set) = context.caches.replica_sets.get_key(&key) else { return Ok(Outcome::Done) };
        sync(&context, &REPLICA_SETS, &set).await
    });
}

/// Starts the ReplicationController controller.
pub(crate) fn start_replication_controllers(context: &Context) {
    let queue = WorkQueue::new();
    enqueue(&context.caches.replication_controllers, &queue);
    follow_pods(context, &queue, &REPLICATION_CONTROLLERS, |context, pod| {
        let sets = context.caches.replication_controllers.list_namespace(&pod.metadata.namespace);
        matching(sets.iter().map(|s| &s.0), pod)
    });
    context.work(&queue, 2, |context, key| async move {
        let cached = context.caches.replication_controllers.get_key(&key);
        let Some(set) = cached else { return Ok(Outcome::Done) };
        sync(&context, &REPLICATION_CONTROLLERS, &set.0).await
    });
}

fn matching<'a>(sets: impl Iterator<Item = &'a ReplicaSet>, pod: &Pod) -> Vec<ObjectKey> {
    sets.filter(|s| s.spec.selector.compiled.matches(&pod.metadata.labels))
        .map(|s| s.metadata.key())
        .collect()
}

/// Owners look again when their pods change; orphans wake everyone who might adopt them.
fn follow_pods(
    context: &Context,
    queue: &WorkQueue<ObjectKey>,
    resource: &ResourceRef,
    adopters: impl Fn(&Context, &Pod) -> Vec<ObjectKey> + Send + Sync + 'static,
) {
    let pods: &Informer<Pod> = &context.caches.pods;
    enqueue_owner(pods, queue, resource);
    let (context, queue) = (context.clone(), queue.clone());
    pods.on_change(move |_, delta| {
        if delta.object().meta().controller().is_none() {
            for key in adopters(&context, delta.object()) {
                queue.add(key);
            }
        }
    });
}

async fn sync(context: &Context, resource: &ResourceRef, set: &ReplicaSet) -> SyncResult {
    let selector = &set.spec.selector.compiled;
    let claimant = Claimant { resource, meta: &set.metadata, selector };
    let candidates = context.caches.pods.list_namespace(&set.metadata.namespace);
    let claimed = plan_claim(claimant, &PODS, candidates.into_iter().filter(|p| !p.finished()));
    execute_all(context, claimed.steps).await?;
    let mut pods = claimed.owned;
    pods.retain(|pod| !pod.metadata.deleting());
    let failure = if set.metadata.deleting() { None } else { manage(context, resource, set, &pods).await };
    let now = clock::now();
    // What was just made or deleted is in the cache by now.
    let current = current_pods(context, set);
    let counted = if current.is_empty() && failure.is_some() { pods } else { current };
    // ReplicationControllers do not tell how many pods are on their way out.
    let terminating = (*resource == REPLICA_SETS).then(|| going_pods(context, set));
    let status = plan_new_status(set, &counted, terminating, failure.as_ref(), now);
    let step = plan_status(resource, &set.metadata, &set.status, &status);
    execute_all(context, step.into_iter().collect()).await?;
    if let Some(error) = failure {
        return Err(error);
    }
    Ok(recheck(set, &counted, now))
}

fn current_pods(context: &Context, set: &ReplicaSet) -> Vec<Arc<Pod>> {
    let mut pods = context.caches.pods.by_index(context.caches.pods_by_owner, &set.metadata.uid);
    pods.retain(|p| p.active() && set.spec.selector.compiled.matches(&p.metadata.labels));
    pods
}

/// Pods on their way out that have not ended yet.
fn going_pods(context: &Context, set: &ReplicaSet) -> usize {
    let pods = context.caches.pods.by_index(context.caches.pods_by_owner, &set.metadata.uid);
    pods.iter().filter(|p| p.metadata.deleting() && !p.finished()).count()
}

/// A pod becomes available by time passing, which no event tells.
fn recheck(set: &ReplicaSet, pods: &[Arc<Pod>], now: Timestamp) -> Outcome {
    let seconds = set.spec.min_ready_seconds;
    let waiting =
        pods.iter().filter(|p| p.ready() && !p.available(seconds, now)).filter_map(|p| p.ready_since());
    let next = waiting.map(|since| seconds - now.duration_since(since).as_secs()).min();
    next.map_or(Outcome::Done, |s| {
        Outcome::After(std::time::Duration::from_secs(u64::try_from(s).unwrap_or(0).max(1)))
    })
}

/// Makes or deletes pods; returns the first error.
async fn manage(
    context: &Context,
    resource: &ResourceRef,
    set: &ReplicaSet,
    pods: &[Arc<Pod>],
) -> Option<ClientError> {
    let missing = set.replicas() - i64::try_from(pods.len()).unwrap_or(i64::MAX);
    let count = usize::try_from(missing.unsigned_abs()).unwrap_or(BURST).min(BURST);
    if missing > 0 {
        let owner = controller_reference(resource, &set.metadata);
        let body = pod_from(&set.spec.template.value(), &set.metadata.namespace, &set.metadata.name, &owner);
        let namespace = &set.metadata.namespace;
        let make = Step::Create { resource: PODS, namespace: namespace.clone(), body };
        let results = execute_slow_start(context, vec![make; count]).await;
        return report_creations(context, (resource, &set.metadata), results);
    }
    let related = context.caches.pods.list_namespace(&set.metadata.namespace);
    let victims = plan_victims(pods, &related, count, clock::now());
    let names: Vec<_> = victims.iter().map(|p| p.metadata.name.clone()).collect();
    let steps = victims.iter().map(|p| Step::delete(&PODS, &p.metadata)).collect();
    let mut first = None;
    for (name, result) in names.into_iter().zip(execute(context, steps).await) {
        let about = (resource, &set.metadata);
        match result {
            Ok(_) => {
                event(context, about, EventKind::Normal, "SuccessfulDelete", format!("Deleted pod: {name}"))
            }
            Err(error) => {
                let text = format!("Error deleting: {error}");
                event(context, about, EventKind::Warning, "FailedDelete", text);
                first = first.or(Some(error));
            }
        }
    }
    first
}

/// Tells of created pods as upstream does; returns the first error. A namespace on its way out is no error: nothing
/// more can be made there.
pub(crate) fn report_creations(
    context: &Context,
    about: (&ResourceRef, &copepod_client::Meta),
    results: Vec<crate::step::StepResult>,
) -> Option<ClientError> {
    let mut first = None;
    for result in results {
        match result {
            Ok(pod) => {
                let text = format!("Created pod: {}", copepod_api::meta::name(&pod));
                event(context, about, EventKind::Normal, "SuccessfulCreate", text);
            }
            Err(error) if error.namespace_terminating() => {}
            Err(error) => {
                event(context, about, EventKind::Warning, "FailedCreate", format!("Error creating: {error}"));
                first = first.or(Some(error));
            }
        }
    }
    first
}

/// The pods whose loss costs least: unplaced, pending, not ready, cheap, crowded, youngest.
fn plan_victims(pods: &[Arc<Pod>], related: &[Arc<Pod>], count: usize, now: Timestamp) -> Vec<Arc<Pod>> {
    let phase = |pod: &Pod| match &*pod.status.phase {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    };
    let crowd = |pod: &Pod| {
        let near = related.iter().filter(|o| o.spec.node_name == pod.spec.node_name && o.active());
        near.filter(|o| o.metadata.controller() == pod.metadata.controller()).count()
    };
    // Ages are compared by magnitude, so that small differences do not decide before restarts do.
    let age = |at: Option<Timestamp>| {
        at.map(|at| u64::try_from(now.duration_since(at).as_secs()).unwrap_or(0).checked_ilog2())
    };
    let cost =
        |pod: &Pod| pod.metadata.annotation(DELETION_COST).and_then(|c| c.parse::<i64>().ok()).unwrap_or(0);
    let mut ranked = pods.to_vec();
    ranked.sort_by_cached_key(|pod| {
        let ready_age = if pod.ready() { age(pod.ready_since()) } else { None };
        (
            !pod.spec.node_name.is_empty(),
            phase(pod),
            pod.ready(),
            cost(pod),
            std::cmp::Reverse(crowd(pod)),
            ready_age,
            std::cmp::Reverse(pod.restarts()),
            std::cmp::Reverse(pod.metadata.creation_timestamp),
        )
    });
    ranked.truncate(count);
    ranked
}

fn plan_new_status(
    set: &ReplicaSet,
    pods: &[Arc<Pod>],
    terminating: Option<usize>,
    failure: Option<&ClientError>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let template = set.spec.template.value();
    let labels = copepod_api::meta::labels(&template);
    let labelled = |pod: &Pod| {
        labels.is_none_or(|l| {
            l.iter().all(|(k, v)| pod.metadata.labels.get(k).map(String::as_str) == v.as_str())
        })
    };
    let count = |test: &dyn Fn(&Pod) -> bool| {
        i64::try_from(pods.iter().filter(|p| test(p)).count()).unwrap_or(i64::MAX)
    };
    let mut conditions = set.status.conditions.clone();
    match failure {
        Some(error) => {
            let missing = set.replicas() - count(&|_| true);
            let reason = if missing < 0 { "FailedDelete" } else { "FailedCreate" };
            set_condition(
                &mut conditions,
                Condition::new("ReplicaFailure", true, reason, error.to_string()),
                now,
            );
        }
        None => conditions.retain(|c| c.r#type != "ReplicaFailure"),
    }
    ReplicaSetStatus {
        replicas: count(&|_| true),
        fully_labeled_replicas: count(&labelled),
        ready_replicas: count(&Pod::ready),
        available_replicas: count(&|p| p.available(set.spec.min_ready_seconds, now)),
        terminating_replicas: terminating.map(|count| i64::try_from(count).unwrap_or(i64::MAX)),
        observed_generation: set.metadata.generation,
        conditions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(name: &str, phase: &str, ready: bool, extra: Value) -> Arc<Pod> {
        let mut body = json!({
            "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n"},
            "status": {"phase": phase, "conditions": [{
                "type": "Ready", "status": if ready { "True" } else { "False" },
                "lastTransitionTime": "2026-01-01T00:01:00Z",
            }]},
        });
        if let Value::Object(extra) = extra {
            body["metadata"].as_object_mut().unwrap().extend(extra);
        }
        Arc::new(serde_json::from_value(body).unwrap())
    }

    #[test]
    fn victims_are_those_whose_loss_costs_least() {
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let costly = json!({"annotations": {DELETION_COST: "10"}});
        let young = json!({"creationTimestamp": "2026-01-01T00:30:00Z"});
        let pods = [
            pod("old", "Running", true, json!({})),
            pod("costly", "Running", true, costly),
            pod("young", "Running", true, young),
            pod("unready", "Running", false, json!({})),
            pod("pending", "Pending", false, json!({})),
        ];
        let names: Vec<_> =
            plan_victims(&pods, &pods, 5, now).iter().map(|p| p.metadata.name.clone()).collect();
        assert_eq!(names, ["pending", "unready", "young", "old", "costly"]);
    }

    #[test]
    fn status_counts_and_names_the_failure() {
        let now: Timestamp = "2026-01-01T00:01:05Z".parse().unwrap();
        let set: ReplicaSet = serde_json::from_value(json!({
            "metadata": {"generation": 3},
            "spec": {"replicas": 3, "minReadySeconds": 10, "selector": {}, "template": {"metadata": {"labels": {"a": "b"}}}},
        }))
        .unwrap();
        let labelled = json!({"labels": {"a": "b"}});
        let pods = [pod("a", "Running", true, labelled), pod("b", "Running", false, json!({}))];
        let refused = ClientError::Config("no".to_owned());
        let status = plan_new_status(&set, &pods, Some(0), Some(&refused), now);
        assert_eq!((status.replicas, status.fully_labeled_replicas, status.ready_replicas), (2, 1, 1));
        assert_eq!(status.available_replicas, 0, "not ready for long enough");
        assert_eq!(status.conditions[0].reason, "FailedCreate");
        assert_eq!(recheck(&set, &pods, now), Outcome::After(std::time::Duration::from_secs(5)));
        let healed = plan_new_status(&ReplicaSet { status, ..set }, &pods, None, None, now);
        assert!(healed.conditions.is_empty());
    }
}
