//! Jobs: pods that run to completion, counted once each.
//!
//! Pods carry a finalizer until they are counted: the UIDs of ended pods are first written into the status as
//! uncounted, then the pods are let go, then the totals include them. Whatever is interrupted where, no pod is lost or
//! counted twice.

mod indexes;
mod policy;
mod status;

use std::sync::Arc;
use std::time::Duration;

use copepod_client::resources::{JOBS, PODS};
use copepod_client::{ClientError, EventKind, ObjectKey, Outcome, Patch, WorkQueue};
use copepod_sys::clock;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::context::{Context, SyncResult, enqueue, enqueue_owner};
use crate::ownership::{Claimant, controller_reference, plan_claim};
use crate::replica_set::report_creations;
use crate::status::plan_status;
use crate::step::{Step, event, execute, execute_all, execute_slow_start};
use crate::template::{generate_name, pod_from};
use crate::views::{Job, JobStatus, Pod};
use status::{Tally, tally};

/// Finalizer of pods that are not counted yet.
pub(crate) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
pub(crate) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// Upstream's back-off between failed pods.
const BACKOFF: (i64, i64) = (10, 600);

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    enqueue(&context.caches.jobs, &queue);
    enqueue_owner(&context.caches.pods, &queue, &JOBS);
    let (owner, orphans) = (context.clone(), queue.clone());
    context.caches.pods.on_change(move |key, delta| {
        let pod = delta.object();
        if pod.metadata.controller().is_none() {
            let jobs = owner.caches.jobs.list_namespace(&key.namespace);
            let matching = jobs.iter().filter(|j| j.spec.selector.compiled.matches(&pod.metadata.labels));
            matching.for_each(|job| orphans.add(job.metadata.key()));
        }
        // The job of a pod that still carries the finalizer is gone: nobody else will take it away.
        if let Some(job) = pod.metadata.controller().filter(|o| o.kind == "Job")
            && pod.metadata.finalizers.iter().any(|f| f == TRACKING)
        {
            orphans.add(ObjectKey::new(&key.namespace, &job.name));
        }
    });
    context.work(&queue, 4, sync);
}

async fn sync(context: Context, key: ObjectKey) -> SyncResult {
    let Some(job) = context.caches.jobs.get_key(&key) else {
        return release_orphans(&context, &key).await;
    };
    if job.spec.managed_by.as_deref().is_some_and(|m| m != "kubernetes.io/job-controller") {
        return Ok(Outcome::Done);
    }
    let claimant = Claimant { resource: &JOBS, meta: &job.metadata, selector: &job.spec.selector.compiled };
    let candidates = context.caches.pods.list_namespace(&key.namespace);
    let claimed = plan_claim(claimant, &PODS, candidates);
    execute_all(&context, claimed.steps).await?;
    let pods = claimed.owned;
    let now = clock::now();
    if job.finished() || job.metadata.deleting() {
        return execute_all(&context, plan_release(&pods)).await.map(|()| Outcome::Done);
    }
    let tally = tally(&job, &pods, now);
    let (mut new, verdict) = status::plan(&job, &tally, now);
    let mut failure = None;
    if verdict.ended() || job.spec.suspend {
        let victims = tally.active.iter().filter(|p| !p.metadata.deleting());
        let steps: Vec<_> = victims.map(|p| Step::delete(&PODS, &p.metadata)).collect();
        if !steps.is_empty() {
            failure = first_error(execute(&context, steps).await);
        }
    } else {
        failure = manage(&context, &job, &tally, now).await;
    }
    let again = clock::now();
    let candidates = context.caches.pods.by_index(context.caches.pods_by_owner, &job.metadata.uid);
    status::recount_active(&mut new, &job, &candidates, &verdict, again);
    settle(&context, &job, &tally).await?;
    let mut stored = job.status.clone();
    if !tally.counted.is_empty() {
        stored.uncounted_terminated_pods = Some(tally.uncounted.clone());
    }
    let step = plan_status(&JOBS, &job.metadata, &stored, &new);
    execute_all(&context, step.into_iter().collect()).await?;
    announce(&context, &job, &new);
    match failure {
        Some(error) => Err(error),
        None => Ok(tally.wait(&job, now).map_or(Outcome::Done, Outcome::After)),
    }
}

/// Names ended pods in the status, then lets them go.
async fn settle(context: &Context, job: &Job, tally: &Tally) -> Result<(), ClientError> {
    if tally.counted.is_empty() {
        return Ok(());
    }
    if job.status.uncounted_terminated_pods.as_ref() != Some(&tally.uncounted) {
        let step = Step::status(&JOBS, &job.metadata, json!({"uncountedTerminatedPods": tally.uncounted}));
        execute_all(context, vec![step]).await?;
    }
    execute_all(context, plan_release(&tally.counted)).await
}

fn first_error(results: Vec<crate::step::StepResult>) -> Option<ClientError> {
    results.into_iter().find_map(Result::err)
}

/// Pods of a job that is gone keep its finalizer otherwise.
async fn release_orphans(context: &Context, key: &ObjectKey) -> SyncResult {
    let mut pods = context.caches.pods.list_namespace(&key.namespace);
    pods.retain(|p| p.metadata.controller().is_some_and(|o| o.kind == "Job" && o.name == key.name));
    execute_all(context, plan_release(&pods)).await.map(|()| Outcome::Done)
}

fn plan_release(pods: &[Arc<Pod>]) -> Vec<Step> {
    let held = pods.iter().filter(|p| p.metadata.finalizers.iter().any(|f| f == TRACKING));
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING]}});
    held.map(|pod| Step::Patch {
        resource: PODS,
        key: pod.metadata.key(),
        subresource: "",
        patch: Patch::Strategic(patch.clone()),
    })
    .collect()
}

/// Makes or deletes pods so that as many run as should.
async fn manage(context: &Context, job: &Job, tally: &Tally, now: Timestamp) -> Option<ClientError> {
    let wanted = tally.wanted_active(job);
    let active = tally.running();
    if active > wanted {
        let mut victims: Vec<_> = tally.active.iter().filter(|p| !p.metadata.deleting()).collect();
        victims.sort_by_key(|p| (p.ready(), std::cmp::Reverse(p.metadata.creation_timestamp)));
        let surplus = usize::try_from(active - wanted).unwrap_or(0);
        let steps = victims.iter().take(surplus).map(|p| Step::delete(&PODS, &p.metadata)).collect();
        return first_error(execute(context, steps).await);
    }
    if tally.wait(job, now).is_some_and(|w| w > Duration::ZERO) && tally.backing_off(job, now) {
        return None;
    }
    let missing = usize::try_from(wanted - active).unwrap_or(0);
    let steps: Vec<_> = if job.indexed() {
        let indexes = tally.free_indexes(job, now);
        indexes
            .into_iter()
            .take(missing)
            .map(|index| create(job, Some((index, tally.index_failures(index)))))
            .collect()
    } else {
        (0..missing).map(|_| create(job, None)).collect()
    };
    let results = execute_slow_start(context, steps).await;
    report_creations(context, (&JOBS, &job.metadata), results)
}

fn create(job: &Job, index: Option<(i64, i64)>) -> Step {
    let meta = &job.metadata;
    let template = job.spec.template.value();
    let mut pod = pod_from(&template, &meta.namespace, &meta.name, &controller_reference(&JOBS, meta));
    let metadata = copepod_api::meta::metadata_mut(&mut pod);
    let mut finalizers = metadata.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    finalizers.push(json!(TRACKING));
    metadata.insert("finalizers".to_owned(), Value::Array(finalizers));
    if let Some((index, failures)) = index {
        metadata.insert("generateName".to_owned(), json!(generate_name(&format!("{}-{index}", meta.name))));
        let annotations = copepod_api::meta::child_mut(metadata, "annotations");
        annotations.insert(INDEX.to_owned(), json!(index.to_string()));
        if job.spec.backoff_limit_per_index.is_some() {
            annotations.insert(INDEX_FAILURES.to_owned(), json!(failures.to_string()));
        }
        copepod_api::meta::child_mut(metadata, "labels").insert(INDEX.to_owned(), json!(index.to_string()));
        if let Some(spec) = pod.get_mut("spec") {
            if spec.get("hostname").is_none() {
                spec["hostname"] = json!(format!("{}-{index}", meta.name));
            }
            for list in ["containers", "initContainers"] {
                spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().for_each(add_index);
            }
        }
    }
    Step::Create { resource: PODS, namespace: meta.namespace.clone(), body: pod }
}

/// Containers of an indexed job learn their index from the environment.
fn add_index(container: &mut Value) {
    let field = json!({"fieldRef": {"fieldPath": format!("metadata.labels['{INDEX}']")}});
    let variable = json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": field});
    let Some(container) = container.as_object_mut() else { return };
    let env = container.entry("env").or_insert_with(|| json!([]));
    if let Some(env) = env.as_array_mut()
        && !env.iter().any(|e| e["name"] == "JOB_COMPLETION_INDEX")
    {
        env.push(variable);
    }
}

/// Events of what the status newly says.
fn announce(context: &Context, job: &Job, new: &JobStatus) {
    let about = (&JOBS, &job.metadata);
    let newly = |kind: &str| {
        let condition = new.conditions.iter().find(|c| c.r#type == kind && c.status == "True")?;
        (!crate::views::holds(&job.status.conditions, kind)).then_some(condition)
    };
    if newly("Complete").is_some() {
        event(context, about, EventKind::Normal, "Completed", "Job completed");
    }
    if let Some(failed) = newly("Failed") {
        event(context, about, EventKind::Warning, &failed.reason, failed.message.clone());
    }
    if newly("Suspended").is_some() {
        event(context, about, EventKind::Normal, "Suspended", "Job suspended");
    } else if job.status.conditions.iter().any(|c| c.r#type == "Suspended" && c.status == "True")
        && !job.spec.suspend
    {
        event(context, about, EventKind::Normal, "Resumed", "Job resumed");
    }
}

/// When a failed pod may be followed by another: doubling with each failure.
fn backoff(failures: i64) -> SignedDuration {
    let shift = u32::try_from(failures.saturating_sub(1).clamp(0, 16)).unwrap_or(0);
    SignedDuration::from_secs((BACKOFF.0 << shift).min(BACKOFF.1))
}
