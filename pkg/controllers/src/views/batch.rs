//! Trimmed Jobs and CronJobs.

use copepod_client::Meta;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::workload::is_zero;
use super::{Condition, HasMeta, Raw, Selector, holds};

/// A Job.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Job {
    /// Metadata.
    pub metadata: Meta,
    /// Desired state.
    pub spec: JobSpec,
    /// Observed state.
    pub status: JobStatus,
}

/// Of `spec`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    /// How many pods at a time; 1 when absent.
    pub parallelism: Option<i64>,
    /// How many successes; absent: one success ends the work queue.
    pub completions: Option<i64>,
    /// Failures before giving up; 6 when absent.
    pub backoff_limit: Option<i64>,
    /// The same for each index.
    pub backoff_limit_per_index: Option<i64>,
    /// Failed indexes before giving up.
    pub max_failed_indexes: Option<i64>,
    /// Seconds the job may run.
    pub active_deadline_seconds: Option<i64>,
    /// Seconds after its end when it is deleted.
    pub ttl_seconds_after_finished: Option<i64>,
    /// `NonIndexed` or `Indexed`.
    pub completion_mode: Option<Box<str>>,
    /// Whether it rests.
    pub suspend: bool,
    /// Which pods.
    pub selector: Selector,
    /// What pods are made from.
    pub template: Raw,
    /// What failures mean.
    pub pod_failure_policy: Option<FailurePolicy>,
    /// When it counts as done early.
    pub success_policy: Option<SuccessPolicy>,
    /// `TerminatingOrFailed` or `Failed`.
    pub pod_replacement_policy: Option<Box<str>>,
    /// Somebody else manages it.
    pub managed_by: Option<String>,
}

/// What failures mean.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct FailurePolicy {
    /// The first rule that matches decides.
    pub rules: Vec<FailureRule>,
}

/// One rule.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FailureRule {
    /// `FailJob`, `FailIndex`, `Ignore`, `Count`.
    pub action: Box<str>,
    /// By exit code.
    pub on_exit_codes: Option<ExitCodes>,
    /// By the pod's conditions.
    pub on_pod_conditions: Vec<ConditionPattern>,
}

/// Exit codes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExitCodes {
    /// One container, or all.
    pub container_name: Option<Box<str>>,
    /// `In` or `NotIn`.
    pub operator: Box<str>,
    /// The codes.
    pub values: Vec<i64>,
}

/// A pattern of a condition.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ConditionPattern {
    /// Type.
    pub r#type: String,
    /// `True` when absent.
    pub status: String,
}

/// When a job counts as done early.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct SuccessPolicy {
    /// One that holds is enough.
    pub rules: Vec<SuccessRule>,
}

/// One rule.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SuccessRule {
    /// Which indexes count.
    pub succeeded_indexes: Option<String>,
    /// How many of them are enough.
    pub succeeded_count: Option<i64>,
}

/// `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// First start, or start after a suspension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// Successful end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Timestamp>,
    /// Running or pending pods.
    #[serde(skip_serializing_if = "is_zero")]
    pub active: i64,
    /// Successes.
    #[serde(skip_serializing_if = "is_zero")]
    pub succeeded: i64,
    /// Failures.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: i64,
    /// Pods on their way out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<i64>,
    /// Successful indexes, such as `0,3-5`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub completed_indexes: String,
    /// Failed indexes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_indexes: Option<String>,
    /// Finished pods that are not counted in `succeeded` and `failed` yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncounted_terminated_pods: Option<Uncounted>,
    /// Ready pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<i64>,
}

/// UIDs of finished pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Uncounted {
    /// That succeeded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub succeeded: Vec<String>,
    /// That failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

impl Job {
    /// Complete or failed.
    #[must_use]
    pub fn finished(&self) -> bool {
        holds(&self.status.conditions, "Complete") || holds(&self.status.conditions, "Failed")
    }

    /// Whether pods have indexes.
    #[must_use]
    pub fn indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }
}

/// A CronJob.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct CronJob {
    /// Metadata.
    pub metadata: Meta,
    /// Desired state.
    pub spec: CronJobSpec,
    /// Observed state.
    pub status: CronJobStatus,
}

/// Of `spec`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobSpec {
    /// Five cron fields, or `@hourly` and the like.
    pub schedule: String,
    /// Time zone of the schedule.
    pub time_zone: Option<String>,
    /// How late a start may be.
    pub starting_deadline_seconds: Option<i64>,
    /// `Allow`, `Forbid`, `Replace`.
    pub concurrency_policy: Box<str>,
    /// Whether it rests.
    pub suspend: bool,
    /// What jobs are made from.
    pub job_template: Raw,
    /// How many successful jobs to keep; 3 when absent.
    pub successful_jobs_history_limit: Option<usize>,
    /// How many failed jobs to keep; 1 when absent.
    pub failed_jobs_history_limit: Option<usize>,
}

/// `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobStatus {
    /// Running jobs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<JobReference>,
    /// Last start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Timestamp>,
    /// Last success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_successful_time: Option<Timestamp>,
}

/// A reference to a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobReference {
    /// `batch/v1`.
    pub api_version: String,
    /// `Job`.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// UID.
    pub uid: String,
    /// Revision.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

impl HasMeta for Job {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl HasMeta for CronJob {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}
