//! Deployments: rollouts by way of ReplicaSets.
//!
//! Each sync carries out one stage (make or find the newest ReplicaSet, scale it, scale the old ones) and writes the
//! status; the change of a ReplicaSet brings the next sync.

mod revision;
mod rollout;
mod scale;
mod status;

use std::sync::Arc;
use std::time::Duration;

use copepod_client::resources::{DEPLOYMENTS, REPLICA_SETS};
use copepod_client::{ClientError, EventKind, ObjectKey, Outcome, WorkQueue};
use copepod_sys::clock;
use serde_json::json;

use crate::context::{Context, SyncResult, enqueue, enqueue_owner};
use crate::ownership::{Claimant, plan_claim};
use crate::status::plan_status;
use crate::step::{Step, event, execute_all};
use crate::template::by_age;
use crate::views::{Deployment, HasMeta, ReplicaSet};
use revision::{DESIRED, MAX};

/// A Deployment with its ReplicaSets, oldest first.
#[derive(Debug)]
struct State {
    deployment: Arc<Deployment>,
    /// The one that has the Deployment's template now.
    new: Option<Arc<ReplicaSet>>,
    old: Vec<Arc<ReplicaSet>>,
}

impl State {
    fn all(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().chain(&self.new)
    }

    fn sum(&self, count: impl Fn(&ReplicaSet) -> i64) -> i64 {
        self.all().map(|set| count(set)).sum()
    }
}

/// A ReplicaSet and the size it is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Resize {
    name: String,
    from: i64,
    to: i64,
}

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    enqueue(&context.caches.deployments, &queue);
    enqueue_owner(&context.caches.replica_sets, &queue, &DEPLOYMENTS);
    let (owners, orphans) = (context.clone(), queue.clone());
    context.caches.replica_sets.on_change(move |key, delta| {
        if delta.object().meta().controller().is_none() {
            for deployment in owners.caches.deployments.list_namespace(&key.namespace) {
                if deployment.spec.selector.compiled.matches(&delta.object().metadata.labels) {
                    orphans.add(deployment.metadata.key());
                }
            }
        }
    });
    let (pods, recreate) = (context.clone(), queue.clone());
    context.caches.pods.on_change(move |key, delta| {
        // Recreate waits for the last old pod, whose end changes no ReplicaSet any more.
        if let Some(owner) = delta.object().meta().controller()
            && let Some(set) = pods.caches.replica_sets.get(&key.namespace, &owner.name)
            && let Some(owner) = set.metadata.controller()
            && pods.caches.deployments.get(&key.namespace, &owner.name).is_some_and(|d| !d.rolling())
        {
            recreate.add(ObjectKey::new(&key.namespace, &owner.name));
        }
    });
    context.work(&queue, 4, sync);
}

async fn sync(context: Context, key: ObjectKey) -> SyncResult {
    let Some(deployment) = context.caches.deployments.get_key(&key) else { return Ok(Outcome::Done) };
    if deployment.spec.selector.compiled.is_empty() {
        let text = "This deployment is selecting all pods. A non-empty selector is required.";
        event(&context, (&DEPLOYMENTS, &deployment.metadata), EventKind::Warning, "SelectingAll", text);
        return Ok(Outcome::Done);
    }
    let selector = &deployment.spec.selector.compiled;
    let claimant = Claimant { resource: &DEPLOYMENTS, meta: &deployment.metadata, selector };
    let candidates = context.caches.replica_sets.list_namespace(&key.namespace);
    let claimed = plan_claim(claimant, &REPLICA_SETS, candidates);
    execute_all(&context, claimed.steps).await?;
    let mut state = split(Arc::clone(&deployment), claimed.owned);
    if deployment.metadata.deleting() {
        return finish(&context, &state, None).await;
    }
    let stage = advance(&context, &mut state).await;
    let outcome = finish(&context, &state, stage.as_ref().err()).await?;
    stage.map(|()| outcome)
}

fn split(deployment: Arc<Deployment>, mut sets: Vec<Arc<ReplicaSet>>) -> State {
    sets.sort_by(|a, b| by_age(&a.metadata, &b.metadata));
    let template = revision::bare(&deployment.spec.template.value());
    let at = sets.iter().position(|set| revision::bare(&set.spec.template.value()) == template);
    let new = at.map(|at| sets.remove(at));
    State { deployment, new, old: sets }
}

/// One stage of whatever is due.
async fn advance(context: &Context, state: &mut State) -> Result<(), ClientError> {
    let deployment = Arc::clone(&state.deployment);
    if deployment.spec.paused || scale::is_due(state) {
        if state.new.is_some() {
            revision::keep(context, state).await?;
        }
        resize(context, state, scale::plan(state)).await?;
        return if deployment.spec.paused { clean_up(context, state).await } else { Ok(()) };
    }
    if deployment.rolling() {
        revision::ensure(context, state).await?;
        let grow = rollout::plan_new(state);
        if !grow.is_empty() {
            return resize(context, state, grow).await;
        }
        let shrink = rollout::plan_old(state);
        if !shrink.is_empty() {
            return resize(context, state, shrink).await;
        }
    } else {
        let shrink = scale::to_zero(&state.old);
        if !shrink.is_empty() {
            return resize(context, state, shrink).await;
        }
        if old_pods_remain(context, state) {
            return Ok(());
        }
        revision::ensure(context, state).await?;
        let grow = rollout::plan_new(state);
        if !grow.is_empty() {
            return resize(context, state, grow).await;
        }
    }
    if status::complete(&deployment, &status::count(state)) { clean_up(context, state).await } else { Ok(()) }
}

fn old_pods_remain(context: &Context, state: &State) -> bool {
    let pods =
        |set: &Arc<ReplicaSet>| context.caches.pods.by_index(context.caches.pods_by_owner, &set.metadata.uid);
    state.old.iter().flat_map(pods).any(|pod| !pod.finished())
}

/// Scales ReplicaSets, and has them remember what size the Deployment had.
async fn resize(context: &Context, state: &State, sizes: Vec<Resize>) -> Result<(), ClientError> {
    let deployment = &state.deployment;
    let max = deployment.replicas() + deployment.bounds().0;
    let annotations = json!({DESIRED: deployment.replicas().to_string(), MAX: max.to_string()});
    let mut steps = Vec::new();
    for size in &sizes {
        let Some(set) = state.all().find(|s| s.metadata.name == size.name) else { continue };
        steps.push(Step::merge(
            &REPLICA_SETS,
            &set.metadata,
            json!({"metadata": {"annotations": annotations}, "spec": {"replicas": size.to}}),
        ));
    }
    execute_all(context, steps).await?;
    for size in sizes.iter().filter(|s| s.from != s.to) {
        let direction = if size.to > size.from { "up" } else { "down" };
        let text = format!("Scaled {direction} replica set {} from {} to {}", size.name, size.from, size.to);
        event(context, (&DEPLOYMENTS, &deployment.metadata), EventKind::Normal, "ScalingReplicaSet", text);
    }
    Ok(())
}

/// Deletes old ReplicaSets that the history has no room for.
async fn clean_up(context: &Context, state: &State) -> Result<(), ClientError> {
    let limit = state.deployment.spec.revision_history_limit.unwrap_or(10);
    let mut old: Vec<_> = state.old.iter().filter(|s| !s.metadata.deleting()).collect();
    old.sort_by_key(|set| revision::number(&set.metadata));
    let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    let idle = |set: &ReplicaSet| {
        set.replicas() == 0
            && set.status.replicas == 0
            && set.metadata.generation <= set.status.observed_generation
    };
    let steps = old.iter().take(surplus).filter(|s| idle(s));
    execute_all(context, steps.map(|s| Step::delete(&REPLICA_SETS, &s.metadata)).collect()).await
}

/// Writes the status from what the caches show now, and says when to look again.
async fn finish(context: &Context, state: &State, failure: Option<&ClientError>) -> SyncResult {
    let deployment = &state.deployment;
    let sets =
        context.caches.replica_sets.by_index(context.caches.replica_sets_by_owner, &deployment.metadata.uid);
    let current = split(Arc::clone(deployment), sets);
    let now = clock::now();
    let new = status::plan(&current, failure, now);
    let step = plan_status(&DEPLOYMENTS, &deployment.metadata, &deployment.status, &new);
    execute_all(context, step.into_iter().collect()).await?;
    Ok(status::deadline(deployment, &new, now)
        .map_or(Outcome::Done, |seconds| Outcome::After(Duration::from_secs(seconds.max(1)))))
}
