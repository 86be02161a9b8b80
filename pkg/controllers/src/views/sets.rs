//! Trimmed DaemonSets, StatefulSets, ControllerRevisions and PodDisruptionBudgets.

use std::collections::BTreeMap;

use copepod_client::Meta;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::workload::is_zero;
use super::{Condition, HasMeta, IntOrString, Raw, Selector, Strategy};

/// A DaemonSet.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct DaemonSet {
    /// Metadata.
    pub metadata: Meta,
    /// Desired state.
    pub spec: DaemonSetSpec,
    /// Observed state.
    pub status: DaemonSetStatus,
}

/// Of `spec`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetSpec {
    /// Which pods.
    pub selector: Selector,
    /// What pods are made from.
    pub template: Raw,
    /// `RollingUpdate` or `OnDelete`.
    pub update_strategy: Strategy,
    /// For how long a pod must be ready to count as available.
    pub min_ready_seconds: i64,
    /// How many old revisions to keep; 10 when absent.
    pub revision_history_limit: Option<i64>,
}

/// `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    /// Nodes that run a pod and should.
    pub current_number_scheduled: i64,
    /// Nodes that run a pod and should not.
    pub number_misscheduled: i64,
    /// Nodes that should run a pod.
    pub desired_number_scheduled: i64,
    /// Nodes whose pod is ready.
    pub number_ready: i64,
    /// The generation acted upon.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Nodes whose pod is of the newest revision.
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_number_scheduled: i64,
    /// Nodes whose pod is available.
    #[serde(skip_serializing_if = "is_zero")]
    pub number_available: i64,
    /// Nodes without an available pod.
    #[serde(skip_serializing_if = "is_zero")]
    pub number_unavailable: i64,
    /// Counts clashes of names made from hashes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i64>,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A StatefulSet.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct StatefulSet {
    /// Metadata.
    pub metadata: Meta,
    /// Desired state.
    pub spec: StatefulSetSpec,
    /// Observed state.
    pub status: StatefulSetStatus,
}

/// Of `spec`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetSpec {
    /// How many pods; 1 when absent.
    pub replicas: Option<i64>,
    /// Which pods.
    pub selector: Selector,
    /// What pods are made from.
    pub template: Raw,
    /// Claims made for each pod.
    pub volume_claim_templates: Raw,
    /// The service that names the pods.
    pub service_name: String,
    /// `OrderedReady` or `Parallel`.
    pub pod_management_policy: Box<str>,
    /// `RollingUpdate` or `OnDelete`.
    pub update_strategy: Strategy,
    /// How many old revisions to keep; 10 when absent.
    pub revision_history_limit: Option<i64>,
    /// For how long a pod must be ready to count as available.
    pub min_ready_seconds: i64,
    /// Where ordinals start.
    pub ordinals: Option<Ordinals>,
    /// What becomes of claims.
    pub persistent_volume_claim_retention_policy: Option<ClaimRetention>,
}

/// Where ordinals start.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Ordinals {
    /// The first.
    pub start: i64,
}

/// What becomes of claims: `Retain` or `Delete`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimRetention {
    /// When the set is deleted.
    pub when_deleted: Box<str>,
    /// When the set shrinks.
    pub when_scaled: Box<str>,
}

/// `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetStatus {
    /// The generation acted upon.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Pods.
    pub replicas: i64,
    /// Ready pods.
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i64,
    /// Pods of the current revision.
    #[serde(skip_serializing_if = "is_zero")]
    pub current_replicas: i64,
    /// Pods of the update revision.
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_replicas: i64,
    /// The revision before the rollout.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub current_revision: String,
    /// The revision of the rollout.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub update_revision: String,
    /// Counts clashes of names made from hashes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i64>,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Available pods.
    pub available_replicas: i64,
}

/// A ControllerRevision.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ControllerRevision {
    /// Metadata.
    pub metadata: Meta,
    /// The remembered state.
    pub data: Raw,
    /// Order of revisions.
    pub revision: i64,
}

/// A PodDisruptionBudget.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudget {
    /// Metadata.
    pub metadata: Meta,
    /// Desired state.
    pub spec: BudgetSpec,
    /// Observed state.
    pub status: BudgetStatus,
}

/// Of `spec`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetSpec {
    /// How many must stay.
    pub min_available: Option<IntOrString>,
    /// How many may be missing.
    pub max_unavailable: Option<IntOrString>,
    /// Which pods.
    pub selector: Selector,
}

/// `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetStatus {
    /// The generation acted upon.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Pods that were evicted but are not gone yet.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub disrupted_pods: BTreeMap<String, Timestamp>,
    /// How many may go now.
    pub disruptions_allowed: i64,
    /// Healthy pods.
    pub current_healthy: i64,
    /// How many must be healthy.
    pub desired_healthy: i64,
    /// Pods in all.
    pub expected_pods: i64,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

macro_rules! has_meta {
    ($($view:ty),*) => {
        $(impl HasMeta for $view {
            fn meta(&self) -> &Meta {
                &self.metadata
            }
        })*
    };
}

has_meta!(DaemonSet, StatefulSet, ControllerRevision, PodDisruptionBudget);
