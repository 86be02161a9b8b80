//! Counting: which pods ran, how they ended, and what that makes of the job. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::indexes::{format, parse};
use super::policy::{Meaning, meaning, success};
use super::{INDEX, INDEX_FAILURES, TRACKING, backoff};
use crate::views::{Condition, Job, JobStatus, Pod, Uncounted, holds, set_condition};

/// What the pods amount to.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Pods that have not ended.
    pub(super) active: Vec<Arc<Pod>>,
    /// Ended pods that this round counts.
    pub(super) counted: Vec<Arc<Pod>>,
    /// UIDs of pods that have ended but are not in the totals that are stored.
    pub(super) uncounted: Uncounted,
    succeeded: i64,
    failed: i64,
    done: BTreeSet<i64>,
    broken: BTreeSet<i64>,
    failures: BTreeMap<i64, i64>,
    fail_job: Option<String>,
    last_failure: Option<Timestamp>,
    recent_failures: i64,
}

/// How the job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Going,
    Complete(&'static str, String),
    Failed(&'static str, String),
}

impl Verdict {
    pub(super) fn ended(&self) -> bool {
        *self != Self::Going
    }
}

fn index_of(pod: &Pod) -> Option<i64> {
    pod.metadata.annotation(INDEX)?.parse().ok()
}

fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let ends = pod.status.container_statuses.iter().filter_map(|c| c.state.terminated.as_ref()?.finished_at);
    ends.max().or(pod.metadata.deletion_timestamp).or(pod.metadata.creation_timestamp)
}

/// Adds up what ended since the last round. A pod that is being deleted counts as failed once it has ended.
pub(super) fn tally(job: &Job, pods: &[Arc<Pod>], now: Timestamp) -> Tally {
    let total = job.spec.completions.unwrap_or(0);
    let uncounted = job.status.uncounted_terminated_pods.clone().unwrap_or_default();
    let known = |list: &[String]| i64::try_from(list.len()).unwrap_or(0);
    let mut tally = Tally {
        succeeded: job.status.succeeded + known(&uncounted.succeeded),
        failed: job.status.failed + known(&uncounted.failed),
        uncounted,
        done: parse(&job.status.completed_indexes, total),
        broken: parse(job.status.failed_indexes.as_deref().unwrap_or_default(), total),
        ..Tally::default()
    };
    for pod in pods {
        let held = pod.metadata.finalizers.iter().any(|f| f == TRACKING);
        let lost = pod.metadata.deleting() && pod.spec.node_name.is_empty();
        if !pod.finished() && !lost {
            tally.active.push(Arc::clone(pod));
            continue;
        }
        let failed = &*pod.status.phase != "Succeeded";
        let list = if failed { &mut tally.uncounted.failed } else { &mut tally.uncounted.succeeded };
        let fresh = held && !list.contains(&pod.metadata.uid);
        if fresh {
            list.push(pod.metadata.uid.clone());
        }
        if failed {
            tally.note_failure(job, pod, fresh, now);
        }
        if held {
            tally.counted.push(Arc::clone(pod));
        }
        if fresh && !failed {
            tally.succeeded += 1;
        }
        if let Some(index) = index_of(pod).filter(|_| held && !failed && job.indexed()) {
            tally.done.insert(index);
        }
    }
    if job.indexed() {
        tally.succeeded = i64::try_from(tally.done.len()).unwrap_or(i64::MAX);
    }
    tally
}

impl Tally {
    fn note_failure(&mut self, job: &Job, pod: &Pod, fresh: bool, now: Timestamp) {
        let meaning = meaning(job, pod);
        if meaning == Meaning::Ignore {
            return;
        }
        let at = ended_at(pod);
        self.last_failure = self.last_failure.max(at);
        self.recent_failures +=
            i64::from(at.is_some_and(|at| now.duration_since(at) < SignedDuration::from_mins(20)));
        let index = index_of(pod);
        if let Some(index) = index {
            let before =
                pod.metadata.annotation(INDEX_FAILURES).and_then(|t| t.parse::<i64>().ok()).unwrap_or(0);
            let count = self.failures.entry(index).or_insert(0);
            *count = (*count).max(before + 1);
            let limit = job.spec.backoff_limit_per_index;
            if limit.is_some_and(|limit| before >= limit) || meaning == Meaning::FailIndex {
                self.broken.insert(index);
            }
        }
        if fresh {
            self.failed += 1;
            if let Meaning::FailJob(text) = meaning {
                self.fail_job = Some(text);
            }
        }
    }

    /// Pods that run and are not on their way out.
    pub(super) fn running(&self) -> i64 {
        i64::try_from(self.active.iter().filter(|p| !p.metadata.deleting()).count()).unwrap_or(i64::MAX)
    }

    fn going(&self) -> i64 {
        i64::try_from(self.active.len()).unwrap_or(i64::MAX) - self.running()
    }

    /// How many pods should run now.
    pub(super) fn wanted_active(&self, job: &Job) -> i64 {
        let parallelism = job.spec.parallelism.unwrap_or(1);
        let wanted = match job.spec.completions {
            // A work queue: once one has succeeded nothing new is started.
            None if self.succeeded > 0 => self.running().min(parallelism),
            None => parallelism,
            Some(total) => {
                let broken = i64::try_from(self.broken.len()).unwrap_or(0);
                parallelism.min(total - self.succeeded - broken)
            }
        };
        // Some policies replace a pod only when it has really ended.
        let late = job.spec.pod_replacement_policy.as_deref() == Some("Failed")
            || job.spec.pod_failure_policy.is_some();
        let reserved = if late { self.going() } else { 0 };
        (wanted - reserved).max(0)
    }

    /// Indexes that have no pod and have neither succeeded nor failed, nor wait for their back-off.
    pub(super) fn free_indexes(&self, job: &Job, now: Timestamp) -> Vec<i64> {
        let late = job.spec.pod_replacement_policy.as_deref() == Some("Failed")
            || job.spec.pod_failure_policy.is_some();
        let busy: BTreeSet<_> = self
            .active
            .iter()
            .filter(|p| late || !p.metadata.deleting())
            .filter_map(|p| index_of(p))
            .collect();
        let waits = |index: &i64| job.spec.backoff_limit_per_index.is_some() && self.index_waits(*index, now);
        (0..job.spec.completions.unwrap_or(0))
            .filter(|i| !busy.contains(i) && !self.done.contains(i) && !self.broken.contains(i) && !waits(i))
            .collect()
    }

    fn index_waits(&self, index: i64, now: Timestamp) -> bool {
        let failures = self.index_failures(index);
        failures > 0 && self.last_failure.is_some_and(|at| at + backoff(failures) > now)
    }

    pub(super) fn index_failures(&self, index: i64) -> i64 {
        self.failures.get(&index).copied().unwrap_or(0)
    }

    /// Whether the whole job waits after a failure.
    pub(super) fn backing_off(&self, job: &Job, now: Timestamp) -> bool {
        job.spec.backoff_limit_per_index.is_none()
            && self.recent_failures > 0
            && self.last_failure.is_some_and(|at| at + backoff(self.recent_failures) > now)
    }

    /// When to look again without an event: after the back-off, or at the deadline.
    pub(super) fn wait(&self, job: &Job, now: Timestamp) -> Option<Duration> {
        let per_index = self.failures.values().max().copied().unwrap_or(0);
        let failures =
            if job.spec.backoff_limit_per_index.is_some() { per_index } else { self.recent_failures };
        let retry = self.last_failure.filter(|_| failures > 0).map(|at| at + backoff(failures));
        let deadline = job
            .status
            .start_time
            .zip(job.spec.active_deadline_seconds)
            .map(|(start, seconds)| start + SignedDuration::from_secs(seconds));
        let due = [retry, deadline].into_iter().flatten().filter(|at| *at > now).min()?;
        Some(due.duration_since(now).unsigned_abs())
    }
}

fn verdict(job: &Job, tally: &Tally, now: Timestamp) -> Verdict {
    let condition =
        |kind: &str| job.status.conditions.iter().find(|c| c.r#type == kind && c.status == "True");
    if let Some(target) = condition("FailureTarget") {
        return Verdict::Failed(known_reason(&target.reason), target.message.clone());
    }
    if let Some(met) = condition("SuccessCriteriaMet") {
        return Verdict::Complete(known_reason(&met.reason), met.message.clone());
    }
    if let Some(text) = &tally.fail_job {
        return Verdict::Failed("PodFailurePolicy", text.clone());
    }
    let broken = i64::try_from(tally.broken.len()).unwrap_or(i64::MAX);
    if job.spec.max_failed_indexes.is_some_and(|max| broken > max) {
        return Verdict::Failed(
            "MaxFailedIndexesExceeded",
            "Job has exceeded the specified maximal number of failed indexes".to_owned(),
        );
    }
    let default = if job.spec.backoff_limit_per_index.is_some() { i64::MAX } else { 6 };
    let limit = job.spec.backoff_limit.unwrap_or(default);
    let restarts: i64 =
        tally.active.iter().filter(|p| &*p.spec.restart_policy == "OnFailure").map(|p| p.restarts()).sum();
    if tally.failed > limit || (restarts > 0 && restarts >= limit) {
        return Verdict::Failed(
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit".to_owned(),
        );
    }
    let overdue = job.status.start_time.zip(job.spec.active_deadline_seconds);
    if !job.spec.suspend && overdue.is_some_and(|(start, s)| now.duration_since(start).as_secs() >= s) {
        return Verdict::Failed(
            "DeadlineExceeded",
            "Job was active longer than specified deadline".to_owned(),
        );
    }
    if let Some(text) = success(job, &tally.done) {
        return Verdict::Complete("SuccessPolicy", text);
    }
    let reached = "Reached expected number of succeeded pods".to_owned();
    match job.spec.completions {
        None if tally.succeeded > 0 && tally.active.is_empty() => {
            Verdict::Complete("CompletionsReached", reached)
        }
        Some(total) if tally.succeeded >= total => Verdict::Complete("CompletionsReached", reached),
        Some(total) if broken > 0 && tally.succeeded + broken >= total => {
            Verdict::Failed("FailedIndexes", "Job has failed indexes".to_owned())
        }
        _ => Verdict::Going,
    }
}

fn known_reason(reason: &str) -> &'static str {
    const REASONS: [&str; 7] = [
        "PodFailurePolicy",
        "MaxFailedIndexesExceeded",
        "BackoffLimitExceeded",
        "DeadlineExceeded",
        "FailedIndexes",
        "SuccessPolicy",
        "CompletionsReached",
    ];
    REASONS.into_iter().find(|r| *r == reason).unwrap_or("CompletionsReached")
}

/// The new status and how the job stands. The final condition comes once no pod runs any more; before that, an interim
/// one announces it.
pub(super) fn plan(job: &Job, tally: &Tally, now: Timestamp) -> (JobStatus, Verdict) {
    let verdict = verdict(job, tally, now);
    let mut status = job.status.clone();
    status.succeeded = tally.succeeded;
    status.failed = tally.failed;
    if job.indexed() {
        status.completed_indexes = format(&tally.done);
        if job.spec.backoff_limit_per_index.is_some() {
            status.failed_indexes = Some(format(&tally.broken));
        }
    }
    status.uncounted_terminated_pods = Some(Uncounted::default());
    if job.spec.suspend {
        if !holds(&status.conditions, "Suspended") {
            let condition = Condition::new("Suspended", true, "JobSuspended", "Job suspended");
            set_condition(&mut status.conditions, condition, now);
        }
        status.start_time = None;
    } else {
        if holds(&status.conditions, "Suspended") {
            let condition = Condition::new("Suspended", false, "JobResumed", "Job resumed");
            set_condition(&mut status.conditions, condition, now);
        }
        status.start_time.get_or_insert(now);
    }
    (status, verdict)
}

/// Fills in what the pods are now, and the final conditions when the time has come.
pub(super) fn recount_active(
    status: &mut JobStatus,
    job: &Job,
    pods: &[Arc<Pod>],
    verdict: &Verdict,
    now: Timestamp,
) {
    let live = || pods.iter().filter(|p| !p.finished());
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    status.active = count(live().filter(|p| !p.metadata.deleting()).count());
    status.ready = Some(count(live().filter(|p| p.ready() && !p.metadata.deleting()).count()));
    status.terminating =
        Some(count(live().filter(|p| p.metadata.deleting() && !p.spec.node_name.is_empty()).count()));
    let (interim, end, reason, text) = match verdict {
        Verdict::Going => return,
        Verdict::Complete(reason, text) => ("SuccessCriteriaMet", "Complete", *reason, text),
        Verdict::Failed(reason, text) => ("FailureTarget", "Failed", *reason, text),
    };
    let mut set = |kind: &str| {
        if !holds(&status.conditions, kind) {
            let condition =
                Condition { last_probe_time: Some(now), ..Condition::new(kind, true, reason, text.clone()) };
            set_condition(&mut status.conditions, condition, now);
        }
    };
    set(interim);
    if status.active > 0 || status.terminating.is_some_and(|n| n > 0) {
        return;
    }
    set(end);
    status.ready = Some(0);
    if end == "Complete" {
        status.completion_time = Some(now);
    }
    if end == "Failed" && job.status.start_time.is_none() {
        status.start_time.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn job(spec: Value, status: Value) -> Job {
        serde_json::from_value(json!({"metadata": {"name": "j"}, "spec": spec, "status": status})).unwrap()
    }

    fn pod(name: &str, phase: &str, index: Option<i64>) -> Arc<Pod> {
        let mut metadata = json!({"name": name, "uid": name, "finalizers": [TRACKING], "creationTimestamp": "1970-01-01T00:00:00Z"});
        if let Some(index) = index {
            metadata["annotations"] = json!({INDEX: index.to_string()});
        }
        Arc::new(
            serde_json::from_value(
                json!({"metadata": metadata, "spec": {"nodeName": "n"}, "status": {"phase": phase}}),
            )
            .unwrap(),
        )
    }

    fn run(job: &Job, pods: &[Arc<Pod>]) -> (JobStatus, Verdict) {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1);
        let tally = tally(job, pods, now);
        let (mut status, verdict) = plan(job, &tally, now);
        recount_active(&mut status, job, pods, &verdict, now);
        (status, verdict)
    }

    #[test]
    fn completions_are_counted_once_and_complete_the_job() {
        let spec = json!({"completions": 2, "parallelism": 2});
        let pods = [pod("a", "Succeeded", None), pod("b", "Running", None)];
        let (status, verdict) = run(&job(spec.clone(), json!({})), &pods);
        assert_eq!((status.succeeded, status.active, verdict), (1, 1, Verdict::Going));
        let then = json!({"succeeded": 1, "startTime": "1970-01-01T00:00:00Z"});
        let (status, verdict) = run(&job(spec, then), &[pod("b", "Succeeded", None)]);
        assert_eq!(status.succeeded, 2);
        assert!(matches!(verdict, Verdict::Complete("CompletionsReached", _)));
        assert!(holds(&status.conditions, "Complete") && status.completion_time.is_some());
    }

    #[test]
    fn indexes_succeed_and_fail_on_their_own() {
        let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 0, "maxFailedIndexes": 1});
        let job = job(spec, json!({}));
        let pods =
            [pod("a", "Succeeded", Some(0)), pod("b", "Failed", Some(1)), pod("c", "Running", Some(2))];
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1);
        let tally = tally(&job, &pods, now);
        assert_eq!(tally.wanted_active(&job), 1);
        assert!(tally.free_indexes(&job, now).is_empty());
        let (status, verdict) = run(&job, &pods);
        assert_eq!((&*status.completed_indexes, status.failed_indexes.as_deref()), ("0", Some("1")));
        assert_eq!(verdict, Verdict::Going);
        let all =
            [pod("a", "Succeeded", Some(0)), pod("b", "Failed", Some(1)), pod("c", "Succeeded", Some(2))];
        let (status, verdict) = run(&job, &all);
        assert!(
            matches!(verdict, Verdict::Failed("FailedIndexes", _)) && holds(&status.conditions, "Failed")
        );
    }

    #[test]
    fn too_many_failures_end_it_but_only_when_nothing_runs() {
        let job = job(json!({"completions": 1, "backoffLimit": 0}), json!({}));
        let (status, verdict) = run(&job, &[pod("a", "Failed", None), pod("b", "Running", None)]);
        assert!(matches!(verdict, Verdict::Failed("BackoffLimitExceeded", _)));
        assert!(holds(&status.conditions, "FailureTarget") && !holds(&status.conditions, "Failed"));
        let (status, _) = run(&job, &[pod("a", "Failed", None)]);
        assert!(holds(&status.conditions, "Failed"));
    }

    #[test]
    fn a_pod_that_is_listed_as_uncounted_is_not_counted_again() {
        let then = json!({"succeeded": 1, "uncountedTerminatedPods": {"succeeded": ["a"]}});
        let job = job(json!({"completions": 9}), then);
        let (status, _) = run(&job, &[pod("a", "Succeeded", None), pod("b", "Succeeded", None)]);
        assert_eq!(status.succeeded, 3);
        assert_eq!(status.uncounted_terminated_pods, Some(Uncounted::default()));
    }
}
