//! What the scheduler keeps of a pod.

use copepod_client::{Meta, ObjectKey};
use jiff::Timestamp;
use serde::Deserialize;

use crate::resources::{Container, Requirements, Resources, assumed_requests, pod_requests};
use crate::selector::{Affinity, Labels, Selector};

/// A toleration.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Toleration {
    key: Box<str>,
    operator: Box<str>,
    value: Box<str>,
    effect: Box<str>,
}

/// A node's taint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// Name.
    pub key: Box<str>,
    /// Value.
    pub value: Box<str>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: Box<str>,
}

impl Toleration {
    /// Whether the taint does not disturb.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let effect = self.effect.is_empty() || self.effect == taint.effect;
        let key = self.key.is_empty() || self.key == taint.key;
        let number = |text: &str| text.parse::<i64>().ok();
        let ordered = |test: fn(&i64, &i64) -> bool| {
            number(&taint.value).zip(number(&self.value)).is_some_and(|(t, v)| test(&t, &v))
        };
        effect
            && key
            && match &*self.operator {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                "Lt" => ordered(i64::lt),
                "Gt" => ordered(i64::gt),
                _ => false,
            }
    }
}

/// A port on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    ip: Box<str>,
    protocol: Box<str>,
    port: u16,
}

impl HostPort {
    /// Whether both cannot be had: same protocol and port, and an address in common.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        let any = |ip: &str| ip == "0.0.0.0" || ip == "::";
        self.port == other.port
            && self.protocol == other.protocol
            && (any(&self.ip) || any(&other.ip) || self.ip == other.ip)
    }
}

/// How evenly pods must be spread.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spread {
    /// Largest allowed difference to the emptiest place.
    pub max_skew: i64,
    /// Node label whose value makes nodes one place.
    pub topology_key: String,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: Box<str>,
    /// Which pods count.
    pub label_selector: Selector,
    /// Labels whose value must be the pod's own.
    pub match_label_keys: Vec<String>,
    /// Fewer places than this count as one that is empty.
    pub min_domains: Option<usize>,
    /// `Honor` (default) or `Ignore` the pod's node affinity when counting places.
    pub node_affinity_policy: Option<Box<str>>,
    /// `Honor` or `Ignore` (default) the nodes' taints when counting places.
    pub node_taints_policy: Option<Box<str>>,
}

impl Spread {
    /// Whether a pod counts for this constraint of a pod with `own` labels.
    #[must_use]
    pub fn counts(&self, own: &Labels, labels: &Labels) -> bool {
        let same = |key: &String| own.get(key).is_none_or(|v| labels.get(key) == Some(v));
        self.label_selector.0.matches(labels) && self.match_label_keys.iter().all(same)
    }
}

/// A trimmed pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "Raw")]
pub struct Pod {
    /// Namespace and name.
    pub key: ObjectKey,
    /// UID.
    pub uid: Box<str>,
    /// Revision.
    pub resource_version: Box<str>,
    /// Labels.
    pub labels: Labels,
    /// Creation.
    pub created: Option<Timestamp>,
    /// Being deleted.
    pub deleting: bool,
    /// The node it is bound to, or empty.
    pub node_name: Box<str>,
    /// Which scheduler is meant.
    pub scheduler_name: Box<str>,
    /// Succeeded or failed: holds nothing any more.
    pub finished: bool,
    /// Priority.
    pub priority: i32,
    /// `Never` keeps it from displacing others.
    pub preempts: bool,
    /// What it asks for in all.
    pub requests: Resources,
    /// The same with upstream's defaults for CPU and memory that containers do not ask for; for comparing nodes only.
    pub assumed: Resources,
    /// Its images, as nodes list them.
    pub images: Vec<Box<str>>,
    /// Ports it wants on the host.
    pub ports: Vec<HostPort>,
    /// Labels the node must carry.
    pub node_selector: Labels,
    /// Affinity, when there is any.
    pub affinity: Option<Box<Affinity>>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Spread constraints.
    pub spread: Vec<Spread>,
    /// Names of gates that keep it out.
    pub gates: Vec<String>,
    /// Claims it mounts.
    pub claims: Vec<String>,
    /// Those of them that are made for it alone.
    pub ephemeral: Vec<String>,
    /// Claims of devices; `None` while one is still to be made from its template.
    pub devices: Vec<Option<String>>,
    /// The node that is being cleared for it.
    pub nominated_node: Box<str>,
    /// Start, for the choice of victims.
    pub started: Option<Timestamp>,
    /// The message of `PodScheduled=False`, when it has one.
    pub unscheduled_because: Option<(Box<str>, Box<str>)>,
}

#[derive(Deserialize)]
struct Raw {
    metadata: Meta,
    #[serde(default)]
    spec: RawSpec,
    #[serde(default)]
    status: RawStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    node_name: Box<str>,
    scheduler_name: Box<str>,
    priority: i32,
    preemption_policy: Box<str>,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    resources: Requirements,
    overhead: Resources,
    node_selector: Labels,
    affinity: Option<Box<Affinity>>,
    tolerations: Vec<Toleration>,
    topology_spread_constraints: Vec<Spread>,
    scheduling_gates: Vec<Named>,
    volumes: Vec<Volume>,
    resource_claims: Vec<DeviceClaim>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct DeviceClaim {
    name: String,
    resource_claim_name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Volume {
    name: String,
    persistent_volume_claim: Option<Claim>,
    ephemeral: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Claim {
    claim_name: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    phase: Box<str>,
    nominated_node_name: Box<str>,
    start_time: Option<Timestamp>,
    conditions: Vec<Condition>,
    resource_claim_statuses: Vec<DeviceClaim>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    r#type: Box<str>,
    status: Box<str>,
    reason: Box<str>,
    message: Box<str>,
}

impl HostPort {
    fn of(port: &crate::resources::ContainerPort) -> Self {
        Self {
            ip: if port.host_ip.is_empty() { "0.0.0.0".into() } else { port.host_ip.clone() },
            protocol: if port.protocol.is_empty() { "TCP".into() } else { port.protocol.clone() },
            port: port.host_port,
        }
    }
}

impl From<Raw> for Pod {
    fn from(raw: Raw) -> Self {
        let (meta, spec, status) = (raw.metadata, raw.spec, raw.status);
        let requests =
            pod_requests(&spec.containers, &spec.init_containers, &spec.resources.requests, &spec.overhead);
        let images = spec.init_containers.iter().chain(&spec.containers);
        let images = images.map(|c| crate::score::normalized(&c.image)).collect();
        let assumed = assumed_requests(
            &spec.containers,
            &spec.init_containers,
            &spec.resources.requests,
            &spec.overhead,
        );
        let sidecars = spec.init_containers.iter().filter(|c| c.restart_policy.as_deref() == Some("Always"));
        let ports = spec.containers.iter().chain(sidecars).flat_map(|c| &c.ports);
        let ephemeral =
            spec.volumes.iter().filter(|v| v.persistent_volume_claim.is_none() && v.ephemeral.is_some());
        let ephemeral = ephemeral.map(|volume| format!("{}-{}", meta.name, volume.name)).collect();
        let made = |name: &str| {
            let known = status.resource_claim_statuses.iter().find(|known| known.name == name);
            known.and_then(|known| known.resource_claim_name.clone())
        };
        let devices = spec.resource_claims.iter();
        let devices = devices.map(|c| c.resource_claim_name.clone().or_else(|| made(&c.name))).collect();
        let claim = |volume: &Volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.clone()),
            (None, Some(_)) => Some(format!("{}-{}", meta.name, volume.name)),
            (None, None) => None,
        };
        let refused =
            status.conditions.into_iter().find(|c| &*c.r#type == "PodScheduled" && &*c.status == "False");
        Self {
            key: meta.key(),
            claims: spec.volumes.iter().filter_map(claim).collect(),
            ephemeral,
            devices,
            uid: meta.uid.into(),
            resource_version: meta.resource_version.into(),
            labels: meta.labels,
            created: meta.creation_timestamp,
            deleting: meta.deletion_timestamp.is_some(),
            node_name: spec.node_name,
            scheduler_name: spec.scheduler_name,
            finished: matches!(&*status.phase, "Succeeded" | "Failed"),
            priority: spec.priority,
            preempts: &*spec.preemption_policy != "Never",
            requests,
            assumed,
            images,
            ports: ports.filter(|p| p.host_port != 0).map(HostPort::of).collect(),
            node_selector: spec.node_selector,
            affinity: spec.affinity,
            tolerations: spec.tolerations,
            spread: spec.topology_spread_constraints,
            gates: spec.scheduling_gates.into_iter().map(|g| g.name).collect(),
            nominated_node: status.nominated_node_name,
            started: status.start_time,
            unscheduled_because: refused.map(|c| (c.reason, c.message)),
        }
    }
}

impl Pod {
    /// Whether it takes up room on its node.
    #[must_use]
    pub fn occupies(&self) -> bool {
        !self.node_name.is_empty() && !self.finished
    }
}
