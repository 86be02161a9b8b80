//! Trimmed ReplicaSets, ReplicationControllers and Deployments.

use copepod_client::Meta;
use serde::{Deserialize, Serialize};

use super::{Condition, HasMeta, IntOrString, Raw, Selector};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde calls")]
pub(crate) fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// A ReplicaSet. (A ReplicationController is brought into the same form.)
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ReplicaSet {
    /// Metadata.
    pub metadata: Meta,
    /// Desired state.
    pub spec: ReplicaSetSpec,
    /// Observed state.
    pub status: ReplicaSetStatus,
}

/// Of `spec`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetSpec {
    /// How many pods; 1 when absent.
    pub replicas: Option<i64>,
    /// For how long a pod must be ready to count as available.
    pub min_ready_seconds: i64,
    /// Which pods.
    pub selector: Selector,
    /// What pods are made from.
    pub template: Raw,
}

/// `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetStatus {
    /// Pods.
    pub replicas: i64,
    /// Pods that have all labels of the template.
    #[serde(skip_serializing_if = "is_zero")]
    pub fully_labeled_replicas: i64,
    /// Ready pods.
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i64,
    /// Available pods.
    #[serde(skip_serializing_if = "is_zero")]
    pub available_replicas: i64,
    /// Pods on their way out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i64>,
    /// The generation acted upon.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl ReplicaSet {
    /// Desired number of pods.
    #[must_use]
    pub fn replicas(&self) -> i64 {
        self.spec.replicas.unwrap_or(1)
    }
}

/// A Deployment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Deployment {
    /// Metadata.
    pub metadata: Meta,
    /// Desired state.
    pub spec: DeploymentSpec,
    /// Observed state.
    pub status: DeploymentStatus,
}

/// Of `spec`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentSpec {
    /// How many pods; 1 when absent.
    pub replicas: Option<i64>,
    /// Which pods.
    pub selector: Selector,
    /// What pods are made from.
    pub template: Raw,
    /// How to replace pods.
    pub strategy: Strategy,
    /// For how long a pod must be ready to count as available.
    pub min_ready_seconds: i64,
    /// How many old ReplicaSets to keep; 10 when absent.
    pub revision_history_limit: Option<i64>,
    /// Whether rollouts rest.
    pub paused: bool,
    /// After how many seconds without progress a rollout has failed.
    pub progress_deadline_seconds: Option<i64>,
}

/// How pods are replaced.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Strategy {
    /// `RollingUpdate` or `Recreate`.
    pub r#type: Box<str>,
    /// Bounds of a rolling update.
    pub rolling_update: Option<RollingUpdate>,
}

/// Bounds of a rolling update.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// How many pods may be missing.
    pub max_unavailable: Option<IntOrString>,
    /// How many pods may be too many.
    pub max_surge: Option<IntOrString>,
    /// StatefulSets: ordinals below this keep the old revision.
    pub partition: Option<i64>,
}

/// `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    /// The generation acted upon.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Pods.
    #[serde(skip_serializing_if = "is_zero")]
    pub replicas: i64,
    /// Pods of the newest ReplicaSet.
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_replicas: i64,
    /// Ready pods.
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i64,
    /// Available pods.
    #[serde(skip_serializing_if = "is_zero")]
    pub available_replicas: i64,
    /// Pods that are missing.
    #[serde(skip_serializing_if = "is_zero")]
    pub unavailable_replicas: i64,
    /// Pods on their way out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i64>,
    /// Counts clashes of names made from hashes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i64>,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl Deployment {
    /// Desired number of pods.
    #[must_use]
    pub fn replicas(&self) -> i64 {
        self.spec.replicas.unwrap_or(1)
    }

    /// Whether pods are replaced step by step.
    #[must_use]
    pub fn rolling(&self) -> bool {
        &*self.spec.strategy.r#type != "Recreate"
    }

    /// How many pods may be too many and how many may be missing, never both none.
    #[must_use]
    pub fn bounds(&self) -> (i64, i64) {
        if !self.rolling() {
            return (0, 0);
        }
        let quarter = IntOrString::Text("25%".to_owned());
        let rolling = self.spec.strategy.rolling_update.as_ref();
        let replicas = self.replicas();
        let surge = rolling.and_then(|r| r.max_surge.as_ref()).unwrap_or(&quarter);
        let unavailable = rolling.and_then(|r| r.max_unavailable.as_ref()).unwrap_or(&quarter);
        let surge = surge.of(replicas, true).unwrap_or(0);
        let unavailable = unavailable.of(replicas, false).unwrap_or(0);
        (surge, if surge == 0 && unavailable == 0 { 1 } else { unavailable.min(replicas) })
    }
}

impl HasMeta for ReplicaSet {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl HasMeta for Deployment {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// A ReplicationController: a ReplicaSet whose selector is a plain map.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "RawController")]
pub struct ReplicationController(pub ReplicaSet);

#[derive(Deserialize)]
struct RawController {
    metadata: Meta,
    #[serde(default)]
    spec: RawControllerSpec,
    #[serde(default)]
    status: ReplicaSetStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawControllerSpec {
    replicas: Option<i64>,
    min_ready_seconds: i64,
    selector: super::MapSelector,
    template: Raw,
}

impl From<RawController> for ReplicationController {
    fn from(raw: RawController) -> Self {
        let spec = ReplicaSetSpec {
            replicas: raw.spec.replicas,
            min_ready_seconds: raw.spec.min_ready_seconds,
            selector: raw.spec.selector.into(),
            template: raw.spec.template,
        };
        Self(ReplicaSet { metadata: raw.metadata, spec, status: raw.status })
    }
}

impl HasMeta for ReplicationController {
    fn meta(&self) -> &Meta {
        &self.0.metadata
    }
}
