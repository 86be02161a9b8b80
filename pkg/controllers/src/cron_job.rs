//! CronJobs: Jobs at times.

mod schedule;

use std::sync::Arc;
use std::time::Duration;

use copepod_client::resources::{CRON_JOBS, JOBS};
use copepod_client::{DeleteOptions, EventKind, ObjectKey, Outcome, Propagation, WorkQueue};
use copepod_sys::clock;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use self::schedule::Schedule;
use crate::context::{Context, SyncResult, enqueue, enqueue_owner};
use crate::ownership::controller_reference;
use crate::status::plan_status;
use crate::step::{Step, event, execute, execute_all};
use crate::template::by_age;
use crate::views::{CronJob, CronJobStatus, Job, JobReference, holds};

const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    enqueue(&context.caches.cron_jobs, &queue);
    enqueue_owner(&context.caches.jobs, &queue, &CRON_JOBS);
    context.work(&queue, 2, sync);
}

/// What to do now.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// Nothing until this time.
    Wait(Option<Timestamp>),
    /// Start the job of this time.
    Start(Timestamp),
    /// The time has passed too long ago.
    Missed(Timestamp),
    /// There is no such time, as with a 31st of February.
    Never,
}

fn decide(job: &CronJob, schedule: &Schedule, now: Timestamp) -> (Decision, bool) {
    let created = job.metadata.creation_timestamp.unwrap_or(now);
    let mut from = job.status.last_schedule_time.unwrap_or(created);
    let deadline = job.spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    if let Some(deadline) = deadline {
        from = from.max(now - deadline);
    }
    if job.spec.suspend {
        return (Decision::Wait(None), false);
    }
    let (latest, many) = schedule.latest(from, now);
    let next = schedule.next(latest.unwrap_or(from), now);
    if next.is_none() {
        return (Decision::Never, false);
    }
    match latest {
        None => (Decision::Wait(next), false),
        Some(at) if deadline.is_some_and(|d| at + d < now) => (Decision::Missed(at), many),
        Some(at) => (Decision::Start(at), many),
    }
}

async fn sync(context: Context, key: ObjectKey) -> SyncResult {
    let Some(cron) = context.caches.cron_jobs.get_key(&key) else { return Ok(Outcome::Done) };
    let about = (&CRON_JOBS, &cron.metadata);
    let mut jobs = context.caches.jobs.list_namespace(&key.namespace);
    jobs.retain(|j| j.metadata.controller().is_some_and(|o| o.uid == cron.metadata.uid));
    jobs.sort_by(|a, b| by_age(&a.metadata, &b.metadata));
    let mut status = track(&context, &cron, &jobs);
    let mut outcome = Outcome::Done;
    if !cron.metadata.deleting() {
        match Schedule::parse(&cron.spec.schedule, cron.spec.time_zone.as_deref()) {
            Err(why) => {
                let text = format!("unparseable schedule: {:?} : {why}", cron.spec.schedule);
                event(&context, about, EventKind::Warning, "UnparseableSchedule", text);
            }
            Ok(schedule) => outcome = advance(&context, &cron, &schedule, &jobs, &mut status).await?,
        }
        execute_all(&context, plan_history(&cron, &jobs)).await?;
    }
    let step = plan_status(&CRON_JOBS, &cron.metadata, &cron.status, &status);
    execute_all(&context, step.into_iter().collect()).await?;
    Ok(outcome)
}

/// Which jobs run, and when the last one succeeded.
fn track(context: &Context, cron: &CronJob, jobs: &[Arc<Job>]) -> CronJobStatus {
    let mut status = cron.status.clone();
    let about = (&CRON_JOBS, &cron.metadata);
    status.active.retain(|active| {
        let job = jobs.iter().find(|j| j.metadata.uid == active.uid);
        match job {
            Some(job) if job.finished() => {
                let how = if holds(&job.status.conditions, "Complete") { "Complete" } else { "Failed" };
                let text = format!("Saw completed job: {}, condition: {how}", job.metadata.name);
                event(context, about, EventKind::Normal, "SawCompletedJob", text);
                false
            }
            Some(_) => true,
            None => {
                let text = format!("Active job went missing: {}", active.name);
                event(context, about, EventKind::Normal, "MissingJob", text);
                false
            }
        }
    });
    let known = |job: &Job| cron.status.active.iter().any(|active| active.uid == job.metadata.uid);
    for job in jobs.iter().filter(|job| !job.finished() && !known(job)) {
        let text = format!("Saw a job that the controller did not create or forgot: {}", job.metadata.name);
        event(context, about, EventKind::Warning, "UnexpectedJob", text);
    }
    let ended = jobs.iter().filter(|j| holds(&j.status.conditions, "Complete"));
    let last = ended.filter_map(|j| j.status.completion_time).max();
    status.last_successful_time = status.last_successful_time.max(last);
    status
}

fn wait_until(at: Option<Timestamp>, now: Timestamp) -> Outcome {
    let Some(at) = at else { return Outcome::Done };
    // A hair later, so that the time has certainly come.
    Outcome::After(at.duration_since(now).unsigned_abs() + Duration::from_millis(100))
}

async fn advance(
    context: &Context,
    cron: &CronJob,
    schedule: &Schedule,
    jobs: &[Arc<Job>],
    status: &mut CronJobStatus,
) -> SyncResult {
    let now = clock::now();
    let about = (&CRON_JOBS, &cron.metadata);
    let (decision, many) = decide(cron, schedule, now);
    if many {
        let text =
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        event(context, about, EventKind::Warning, "TooManyMissedTimes", text);
    }
    let next = |last| Ok(wait_until(schedule.next(last, now), now));
    let at = match decision {
        Decision::Wait(at) => return Ok(wait_until(at, now)),
        Decision::Missed(at) => {
            event(
                context,
                about,
                EventKind::Warning,
                "MissSchedule",
                format!("Missed scheduled time to start a job: {}", at.strftime("%a, %d %b %Y %H:%M:%S %z")),
            );
            return next(at);
        }
        Decision::Never => {
            // Upstream's words: its parser gives the same time twice for such a schedule.
            let why = "time difference between two schedules is less than 1 second";
            let text = format!("invalid schedule: {} : {why}", cron.spec.schedule);
            event(context, about, EventKind::Warning, "InvalidSchedule", text);
            return Ok(Outcome::Done);
        }
        Decision::Start(at) => at,
    };
    if &*cron.spec.concurrency_policy == "Forbid" && !status.active.is_empty() {
        let text = "Not starting job because prior execution is running and concurrency policy is Forbid";
        event(context, about, EventKind::Normal, "JobAlreadyActive", text);
        return next(at);
    }
    if &*cron.spec.concurrency_policy == "Replace" {
        let active = |j: &&Arc<Job>| status.active.iter().any(|a| a.uid == j.metadata.uid);
        for job in jobs.iter().filter(active) {
            execute_all(context, vec![delete(job)]).await?;
            event(
                context,
                about,
                EventKind::Normal,
                "SuccessfulDelete",
                format!("Deleted job {}", job.metadata.name),
            );
        }
        status.active.clear();
    }
    launch(context, cron, schedule, at, status).await?;
    next(at)
}

/// Makes the job of a time and notes it in the status.
async fn launch(
    context: &Context,
    cron: &CronJob,
    schedule: &Schedule,
    at: Timestamp,
    status: &mut CronJobStatus,
) -> Result<(), copepod_client::ClientError> {
    let about = (&CRON_JOBS, &cron.metadata);
    let namespace = cron.metadata.namespace.clone();
    let step = Step::Create { resource: JOBS, namespace, body: build(cron, schedule, at) };
    match execute(context, vec![step]).await.pop().unwrap_or(Ok(Value::Null)) {
        Ok(job) => {
            let name = copepod_api::meta::name(&job).to_owned();
            event(context, about, EventKind::Normal, "SuccessfulCreate", format!("Created job {name}"));
            status.active.push(JobReference {
                api_version: JOBS.api_version(),
                kind: JOBS.kind.to_string(),
                name,
                namespace: cron.metadata.namespace.clone(),
                uid: copepod_api::meta::uid(&job).to_owned(),
                resource_version: copepod_api::meta::resource_version(&job).to_owned(),
            });
        }
        // It was started before the status could be written.
        Err(error) if error.is_already_exists() => {}
        Err(error) if error.namespace_terminating() => return Ok(()),
        Err(error) => {
            event(context, about, EventKind::Warning, "FailedCreate", format!("Error creating job: {error}"));
            return Err(error);
        }
    }
    status.last_schedule_time = Some(at);
    Ok(())
}

/// The job's name holds its time in minutes, so that one time never starts two jobs.
fn build(cron: &CronJob, schedule: &Schedule, at: Timestamp) -> Value {
    let template = cron.spec.job_template.value();
    let part =
        |field: &str| template.pointer(&format!("/metadata/{field}")).cloned().unwrap_or_else(|| json!({}));
    let mut annotations = part("annotations");
    let local = at.to_zoned(schedule.zone.clone());
    annotations[SCHEDULED_AT] =
        json!(local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string().replace("+00:00", "Z"));
    json!({
        "apiVersion": JOBS.api_version(), "kind": JOBS.kind,
        "metadata": {
            "name": format!("{}-{}", cron.metadata.name, at.as_second() / 60),
            "namespace": cron.metadata.namespace, "labels": part("labels"), "annotations": annotations,
            "ownerReferences": [controller_reference(&CRON_JOBS, &cron.metadata)],
        },
        "spec": template.get("spec"),
    })
}

fn delete(job: &Job) -> Step {
    Step::Delete {
        resource: JOBS,
        key: job.metadata.key(),
        uid: job.metadata.uid.clone(),
        options: DeleteOptions::uid(&job.metadata.uid).propagation(Propagation::Background),
    }
}

/// Ended jobs that the limits have no room for, oldest first.
fn plan_history(cron: &CronJob, jobs: &[Arc<Job>]) -> Vec<Step> {
    let surplus = |kind: &'static str, limit: usize| {
        let ended: Vec<_> =
            jobs.iter().filter(|j| holds(&j.status.conditions, kind) && !j.metadata.deleting()).collect();
        let count = ended.len().saturating_sub(limit);
        ended.into_iter().take(count).map(|j| delete(j)).collect::<Vec<_>>()
    };
    let mut steps = surplus("Complete", cron.spec.successful_jobs_history_limit.unwrap_or(3));
    steps.extend(surplus("Failed", cron.spec.failed_jobs_history_limit.unwrap_or(1)));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn cron(spec: Value, last: Option<&str>) -> CronJob {
        let metadata = json!({"name": "c", "creationTimestamp": "2026-01-01T00:00:30Z"});
        serde_json::from_value(
            json!({"metadata": metadata, "spec": spec, "status": {"lastScheduleTime": last}}),
        )
        .unwrap()
    }

    #[test]
    fn starts_the_latest_due_time_once() {
        let every = Schedule::parse("*/1 * * * ?", None).unwrap();
        let now = at("2026-01-01T00:05:10Z");
        let fresh = cron(json!({}), None);
        assert_eq!(decide(&fresh, &every, now), (Decision::Start(at("2026-01-01T00:05:00Z")), false));
        let done = cron(json!({}), Some("2026-01-01T00:05:00Z"));
        assert_eq!(decide(&done, &every, now).0, Decision::Wait(Some(at("2026-01-01T00:06:00Z"))));
        let strict = cron(json!({"startingDeadlineSeconds": 5}), Some("2026-01-01T00:04:00Z"));
        assert_eq!(decide(&strict, &every, now).0, Decision::Wait(Some(at("2026-01-01T00:06:00Z"))));
        let asleep = cron(json!({"suspend": true}), None);
        assert_eq!(decide(&asleep, &every, now).0, Decision::Wait(None));
        let never = Schedule::parse("59 23 31 2 *", None).unwrap();
        assert_eq!(decide(&fresh, &never, now).0, Decision::Never);
        assert_eq!(decide(&asleep, &never, now).0, Decision::Wait(None));
        let (decision, many) = decide(&fresh, &every, at("2026-01-03T00:00:10Z"));
        assert_eq!((decision, many), (Decision::Start(at("2026-01-03T00:00:00Z")), true));
    }

    #[test]
    fn a_job_says_its_time_in_the_zone() {
        let berlin = Schedule::parse("0 12 * * *", Some("Europe/Berlin")).unwrap();
        let name =
            build(&cron(json!({"jobTemplate": {"spec": {}}}), None), &berlin, at("2026-07-01T10:00:00Z"));
        assert_eq!(name["metadata"]["annotations"][SCHEDULED_AT], "2026-07-01T12:00:00+02:00");
    }
}
