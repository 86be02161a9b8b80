//! The Node object and its status, rendered purely.

use std::collections::BTreeMap;
use std::net::IpAddr;

use copepod_api::Quantity;
use copepod_cri::v1 as cri;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerImage, DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeFeatures,
    NodeRuntimeHandler, NodeRuntimeHandlerFeatures, NodeStatus, NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Amount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::info::Machine;
use crate::config::Config;

/// The Kubernetes version this kubelet speaks for.
pub const KUBELET_VERSION: &str = "v1.37.2";
/// Most images listed in the status.
const MAX_IMAGES: usize = 50;
/// Most names per image.
const MAX_NAMES: usize = 5;

/// Features that the control plane asks for by name before it lets a pod depend on them.
const DECLARED_FEATURES: &[&str] =
    &["InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers"];

/// What the status is rendered from.
#[derive(Debug, Clone)]
pub struct NodeInput<'a> {
    /// Configuration.
    pub config: &'a Config,
    /// Machine facts.
    pub machine: &'a Machine,
    /// Addresses, one per family.
    pub addresses: &'a [IpAddr],
    /// Bytes of the root filesystem.
    pub storage: u64,
    /// `containerd://…`.
    pub runtime_version: String,
    /// What the runtime's handlers can.
    pub handlers: Vec<cri::RuntimeHandler>,
    /// Whether the runtime knows `supplementalGroupsPolicy`.
    pub supplemental_groups_policy: bool,
    /// Why the node is not ready; empty when it is.
    pub problems: Vec<String>,
    /// Pressure signals.
    pub pressure: Pressure,
    /// Images of the runtime.
    pub images: Vec<cri::Image>,
    /// Now.
    pub now: Timestamp,
}

/// Which resources are short.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Memory.
    pub memory: bool,
    /// Disk space or inodes.
    pub disk: bool,
    /// Process ids.
    pub pids: bool,
}

impl Pressure {
    /// Conditions that hold, in Go's list form; `None` when all is well.
    #[must_use]
    pub fn names(self) -> Option<String> {
        let all = [(self.memory, "MemoryPressure"), (self.disk, "DiskPressure"), (self.pids, "PIDPressure")];
        let on: Vec<_> = all.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
        (!on.is_empty()).then(|| format!("[{}]", on.join(" ")))
    }
}

/// What the node has in all.
#[must_use]
pub fn capacity(config: &Config, machine: &Machine, storage: u64) -> BTreeMap<String, Quantity> {
    let bytes = |n: i64| Quantity::from_bytes(n / 1024 * 1024);
    [
        ("cpu", Quantity::from_units(machine.cpus)),
        ("memory", bytes(machine.memory)),
        ("ephemeral-storage", bytes(i64::try_from(storage).unwrap_or(i64::MAX))),
        ("pods", Quantity::from_units(config.max_pods.into())),
        ("hugepages-1Gi", Quantity::from_units(0)),
        ("hugepages-2Mi", Quantity::from_units(0)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// What pods may request: capacity less reservations and the hard eviction thresholds.
#[must_use]
pub fn allocatable(config: &Config, capacity: &BTreeMap<String, Quantity>) -> BTreeMap<String, Quantity> {
    let mut left = capacity.clone();
    let mut take = |name: &str, amount: Quantity| {
        if let Some(value) = left.get_mut(name) {
            *value = if *value > amount { *value - amount } else { Quantity::from_units(0) };
        }
    };
    for (name, text) in config.kube_reserved.iter().chain(&config.system_reserved) {
        if let Ok(amount) = text.parse() {
            take(name, amount);
        }
    }
    for (signal, name) in [("memory.available", "memory"), ("nodefs.available", "ephemeral-storage")] {
        let Some(threshold) = config.eviction_hard.get(signal) else { continue };
        let whole = capacity.get(name).copied().unwrap_or_default();
        if let Some(amount) = threshold_amount(threshold, whole) {
            take(name, amount);
        }
    }
    left
}

/// A threshold (`100Mi` or `10%`) of `whole`.
#[must_use]
pub fn threshold_amount(text: &str, whole: Quantity) -> Option<Quantity> {
    match text.strip_suffix('%') {
        Some(percent) => {
            let percent: f64 = percent.trim().parse().ok()?;
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                reason = "a share of bytes needs no more"
            )]
            let share = (whole.units() as f64 * percent / 100.0) as i64;
            Some(Quantity::from_bytes(share))
        }
        None => text.parse().ok(),
    }
}

fn amounts(map: &BTreeMap<String, Quantity>) -> BTreeMap<String, Amount> {
    map.iter().map(|(k, v)| (k.clone(), Amount(v.to_string()))).collect()
}

/// Labels every node carries.
#[must_use]
pub fn well_known_labels(config: &Config, machine: &Machine) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<_, _> = [
        ("kubernetes.io/hostname", config.node_name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", machine.architecture.as_str()),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", machine.architecture.as_str()),
    ]
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
    .into();
    labels.extend(config.node_labels.clone());
    labels
}

/// The status.
#[must_use]
pub fn render_node_status(input: &NodeInput<'_>, previous: Option<&NodeStatus>) -> NodeStatus {
    let machine = input.machine;
    let capacity = capacity(input.config, machine, input.storage);
    let mut addresses: Vec<_> = input
        .addresses
        .iter()
        .map(|ip| NodeAddress { type_: "InternalIP".to_owned(), address: ip.to_string() })
        .collect();
    addresses.push(NodeAddress { type_: "Hostname".to_owned(), address: input.config.node_name.clone() });
    let port = input.config.server.as_ref().map(|s| i32::from(s.bind.port()));
    NodeStatus {
        addresses: Some(addresses),
        allocatable: Some(amounts(&allocatable(input.config, &capacity))),
        capacity: Some(amounts(&capacity)),
        conditions: Some(render_conditions(input, previous)),
        daemon_endpoints: Some(NodeDaemonEndpoints {
            kubelet_endpoint: port.map(|port| DaemonEndpoint { port }),
        }),
        declared_features: Some(DECLARED_FEATURES.iter().map(|f| (*f).to_owned()).collect()),
        features: Some(NodeFeatures { supplemental_groups_policy: Some(input.supplemental_groups_policy) }),
        runtime_handlers: Some(input.handlers.iter().map(render_handler).collect()),
        images: Some(render_images(&input.images)),
        node_info: Some(NodeSystemInfo {
            architecture: machine.architecture.clone(),
            boot_id: machine.boot_id.clone(),
            container_runtime_version: input.runtime_version.clone(),
            kernel_version: machine.kernel.clone(),
            kubelet_version: KUBELET_VERSION.to_owned(),
            machine_id: machine.machine_id.clone(),
            operating_system: "linux".to_owned(),
            os_image: machine.os_image.clone(),
            system_uuid: machine.system_uuid.clone(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

fn render_conditions(input: &NodeInput<'_>, previous: Option<&NodeStatus>) -> Vec<NodeCondition> {
    let pressure = input.pressure;
    let ready = input.problems.is_empty();
    let table = [
        (
            "MemoryPressure",
            pressure.memory,
            ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
            ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ),
        (
            "DiskPressure",
            pressure.disk,
            ("KubeletHasDiskPressure", "kubelet has disk pressure"),
            ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ),
        (
            "PIDPressure",
            pressure.pids,
            ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
            ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ),
        ("Ready", ready, ("KubeletReady", "kubelet is posting ready status"), ("KubeletNotReady", "")),
    ];
    table
        .into_iter()
        .map(|(kind, on, when_true, when_false)| {
            let (reason, message) = if on { when_true } else { when_false };
            let status = if on { "True" } else { "False" };
            let message = if reason == "KubeletNotReady" {
                format!("[{}]", input.problems.join(", "))
            } else {
                message.to_owned()
            };
            let message = unwrap_single(message, &input.problems);
            let old = previous.and_then(|p| p.conditions.as_ref()?.iter().find(|c| c.type_ == kind));
            let transition = old.filter(|c| c.status == status).and_then(|c| c.last_transition_time.clone());
            NodeCondition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message),
                last_heartbeat_time: Some(Time(input.now)),
                last_transition_time: Some(transition.unwrap_or(Time(input.now))),
            }
        })
        .collect()
}

/// A single problem stands without brackets, as Go's aggregate prints it.
fn unwrap_single(message: String, problems: &[String]) -> String {
    match problems {
        [one] if message == format!("[{one}]") => one.clone(),
        _ => message,
    }
}

fn render_handler(handler: &cri::RuntimeHandler) -> NodeRuntimeHandler {
    let features = handler.features.unwrap_or_default();
    NodeRuntimeHandler {
        name: Some(handler.name.clone()),
        features: Some(NodeRuntimeHandlerFeatures {
            recursive_read_only_mounts: Some(features.recursive_read_only_mounts),
            user_namespaces: Some(features.user_namespaces),
        }),
    }
}

fn render_images(images: &[cri::Image]) -> Vec<ContainerImage> {
    let mut sorted: Vec<_> = images.iter().collect();
    sorted.sort_by(|a, b| b.size.cmp(&a.size).then(a.id.cmp(&b.id)));
    sorted
        .into_iter()
        .take(MAX_IMAGES)
        .map(|image| ContainerImage {
            names: Some(image.repo_digests.iter().chain(&image.repo_tags).take(MAX_NAMES).cloned().collect()),
            size_bytes: i64::try_from(image.size).ok(),
        })
        .collect()
}

/// The object to register.
#[must_use]
pub fn render_node(input: &NodeInput<'_>) -> Node {
    let mut node = Node::default();
    node.metadata.name = Some(input.config.node_name.clone());
    node.metadata.labels = Some(well_known_labels(input.config, input.machine));
    node.metadata.annotations = Some(BTreeMap::from([(
        "volumes.kubernetes.io/controller-managed-attach-detach".to_owned(),
        "true".to_owned(),
    )]));
    let spec = node.spec.get_or_insert_with(Default::default);
    if !input.config.register_with_taints.is_empty() {
        spec.taints = Some(input.config.register_with_taints.clone());
    }
    node.status = Some(render_node_status(input, None));
    node
}

/// Whether two statuses differ in more than heartbeat times.
#[must_use]
pub fn changed(old: &NodeStatus, new: &NodeStatus) -> bool {
    let quiet = |status: &NodeStatus| {
        let mut status = status.clone();
        for condition in status.conditions.iter_mut().flatten() {
            condition.last_heartbeat_time = None;
        }
        status
    };
    quiet(old) != quiet(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input<'a>(config: &'a Config, machine: &'a Machine, problems: Vec<String>) -> NodeInput<'a> {
        NodeInput {
            config,
            machine,
            addresses: &[],
            storage: 100 << 30,
            runtime_version: "containerd://2.4.2".to_owned(),
            handlers: Vec::new(),
            supplemental_groups_policy: true,
            problems,
            pressure: Pressure::default(),
            images: Vec::new(),
            now: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn allocatable_leaves_reservations_and_thresholds() {
        let config = Config {
            node_name: "n".to_owned(),
            kube_reserved: BTreeMap::from([("cpu".to_owned(), "250m".to_owned())]),
            ..Config::default()
        };
        let machine = Machine { cpus: 2, memory: 1 << 30, ..Machine::default() };
        let left = allocatable(&config, &capacity(&config, &machine, 100 << 30));
        assert_eq!(left["cpu"].to_string(), "1750m");
        assert_eq!(left["memory"].units(), (1 << 30) - (100 << 20));
        assert_eq!(left["ephemeral-storage"].units(), (100_i64 << 30) * 9 / 10);
        assert_eq!(left["pods"].units(), 110);
    }

    #[test]
    fn conditions_are_upstreams_and_keep_their_time() {
        let config = Config { node_name: "n".to_owned(), ..Config::default() };
        let machine = Machine::default();
        let ready = render_node_status(&input(&config, &machine, Vec::new()), None);
        let conditions = ready.conditions.clone().unwrap();
        assert_eq!(conditions[3].reason.as_deref(), Some("KubeletReady"));
        assert_eq!(conditions[0].message.as_deref(), Some("kubelet has sufficient memory available"));
        let problem = "container runtime network not ready: NetworkReady=false".to_owned();
        let mut later = input(&config, &machine, vec![problem.clone()]);
        later.now = Timestamp::from_second(9).unwrap();
        let broken = render_node_status(&later, Some(&ready));
        let conditions = broken.conditions.clone().unwrap();
        assert_eq!(conditions[3].message, Some(problem));
        assert_eq!(conditions[3].last_transition_time, Some(Time(later.now)));
        assert_eq!(conditions[0].last_transition_time, Some(Time(Timestamp::UNIX_EPOCH)));
        assert!(changed(&ready, &broken));
        later.problems.clear();
        assert!(!changed(&ready, &render_node_status(&later, Some(&ready))));
    }
}
