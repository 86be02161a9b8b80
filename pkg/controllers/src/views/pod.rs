//! A trimmed Pod.

use copepod_client::Meta;
use jiff::Timestamp;
use serde::Deserialize;

use super::{Condition, HasMeta, holds};

/// A Pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Metadata.
    pub metadata: Meta,
    /// Desired state.
    pub spec: PodSpec,
    /// Observed state.
    pub status: PodStatus,
}

/// Of `spec`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node it is bound to.
    pub node_name: Box<str>,
    /// Host name in the cluster's DNS.
    pub hostname: Box<str>,
    /// Service that gives the name its domain.
    pub subdomain: Box<str>,
    /// The node a daemon's pod is meant for.
    pub affinity: TargetNode,
    /// Tolerations, for evictions.
    pub tolerations: Vec<Toleration>,
    /// Containers.
    pub containers: Vec<Container>,
    /// Init containers.
    pub init_containers: Vec<Container>,
    /// `Always`, `OnFailure`, `Never`.
    pub restart_policy: Box<str>,
    /// Seconds after which the pod fails.
    pub active_deadline_seconds: Option<i64>,
    /// Volumes that are claims.
    pub volumes: Vec<Volume>,
}

/// Of an affinity: the one node that a daemon's pod is tied to by name.
#[derive(Debug, Clone, Default)]
pub struct TargetNode(pub Option<Box<str>>);

impl<'de> Deserialize<'de> for TargetNode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const NAME: &str = "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
        let affinity = serde_json::Value::deserialize(deserializer)?;
        Ok(Self(affinity.pointer(NAME).and_then(serde_json::Value::as_str).map(Into::into)))
    }
}

/// Of a volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Name.
    pub name: Box<str>,
    /// A claim.
    pub persistent_volume_claim: Option<ClaimSource>,
    /// A claim that lives as long as the pod.
    pub ephemeral: Option<EphemeralSource>,
}

/// Of an ephemeral volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EphemeralSource {
    /// What the claim is made from.
    pub volume_claim_template: super::Raw,
}

/// Of a claim as a volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSource {
    /// The claim.
    pub claim_name: String,
}

/// A toleration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// Taint key; empty is any.
    pub key: Box<str>,
    /// `Equal` or `Exists`.
    pub operator: Box<str>,
    /// Value for `Equal`.
    pub value: Box<str>,
    /// Effect; empty is any.
    pub effect: Box<str>,
    /// For how long a NoExecute taint is borne; for ever when absent.
    pub toleration_seconds: Option<i64>,
}

impl Toleration {
    /// Whether it bears a taint.
    #[must_use]
    pub fn bears(&self, taint: &super::Taint) -> bool {
        let value = match &*self.operator {
            "" | "Equal" => *self.value == *taint.value,
            "Exists" => true,
            _ => false,
        };
        (self.effect.is_empty() || *self.effect == *taint.effect)
            && (self.key.is_empty() || *self.key == *taint.key)
            && value
    }
}

/// Of a container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Name.
    pub name: Box<str>,
    /// Ports.
    pub ports: Vec<ContainerPort>,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<Box<str>>,
    /// What it asks for.
    pub resources: Resources,
}

/// Of a container's resources.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// What is asked for.
    pub requests: std::collections::BTreeMap<Box<str>, copepod_api::Quantity>,
}

/// Of a container's port.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Name.
    pub name: Box<str>,
    /// Number.
    pub container_port: u16,
    /// `TCP` when empty.
    pub protocol: Box<str>,
}

/// Of `status`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// Phase.
    pub phase: Box<str>,
    /// Reason, such as `Evicted`.
    pub reason: Box<str>,
    /// Conditions.
    pub conditions: Vec<Condition>,
    /// Address.
    #[serde(rename = "podIP")]
    pub pod_ip: Box<str>,
    /// All addresses.
    #[serde(rename = "podIPs")]
    pub pod_ips: Vec<PodIp>,
    /// Containers.
    pub container_statuses: Vec<ContainerStatus>,
    /// Init containers.
    pub init_container_statuses: Vec<ContainerStatus>,
    /// When the kubelet saw it first.
    pub start_time: Option<Timestamp>,
}

/// One address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodIp {
    /// The address.
    pub ip: Box<str>,
}

/// Of a container's status.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Name.
    pub name: Box<str>,
    /// Restarts.
    pub restart_count: i64,
    /// State now.
    pub state: ContainerState,
}

/// Of a container's state.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// When it has ended.
    pub terminated: Option<Terminated>,
}

/// How a container ended.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
    /// Exit code.
    pub exit_code: i64,
    /// When.
    pub finished_at: Option<Timestamp>,
}

impl HasMeta for Pod {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Pod {
    /// Neither finished nor being deleted.
    #[must_use]
    pub fn active(&self) -> bool {
        !self.finished() && !self.metadata.deleting()
    }

    /// The claims it uses, and whether each is its own ephemeral volume.
    pub fn claim_names(&self) -> impl Iterator<Item = (std::borrow::Cow<'_, str>, bool)> {
        self.spec.volumes.iter().filter_map(|volume| {
            match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(claim), _) => Some((claim.claim_name.as_str().into(), false)),
                (None, Some(_)) => Some((format!("{}-{}", self.metadata.name, volume.name).into(), true)),
                (None, None) => None,
            }
        })
    }

    /// Whether nothing of it runs or will run again.
    #[must_use]
    pub fn terminated(&self) -> bool {
        let ended = |c: &ContainerStatus| c.state.terminated.is_some();
        self.finished() || (self.metadata.deleting() && self.status.container_statuses.iter().all(ended))
    }

    /// Succeeded or failed.
    #[must_use]
    pub fn finished(&self) -> bool {
        matches!(&*self.status.phase, "Succeeded" | "Failed")
    }

    /// Whether the Ready condition is true.
    #[must_use]
    pub fn ready(&self) -> bool {
        holds(&self.status.conditions, "Ready")
    }

    /// Since when the pod is ready.
    #[must_use]
    pub fn ready_since(&self) -> Option<Timestamp> {
        let ready = super::condition(&self.status.conditions, "Ready").filter(|c| c.status == "True");
        ready.and_then(|c| c.last_transition_time)
    }

    /// Whether it has been ready for `seconds`.
    #[must_use]
    pub fn available(&self, seconds: i64, now: Timestamp) -> bool {
        self.ready()
            && (seconds == 0
                || self.ready_since().is_some_and(|since| now.duration_since(since).as_secs() >= seconds))
    }

    /// Restarts of its most restarted container.
    #[must_use]
    pub fn restarts(&self) -> i64 {
        self.status.container_statuses.iter().map(|c| c.restart_count).max().unwrap_or(0)
    }
}
