//! Reading pods: identity, policies and the small rules upstream spells out in many places.

pub mod defaults;
pub mod hash;
pub mod resources;

use std::collections::BTreeMap;

use copepod_api::Quantity;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

/// Annotation that names where a pod came from (`file`, `api`).
pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
/// The source of pods that only the runtime still knows.
pub const ORPHAN: &str = "orphan";
/// Annotation with the hash of a static pod's manifest.
pub const CONFIG_HASH: &str = "kubernetes.io/config.hash";
/// Annotation with the time a source first gave the pod.
pub const CONFIG_SEEN: &str = "kubernetes.io/config.seen";
/// Annotation that marks a mirror pod and carries its static pod's hash.
pub const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";

/// Priorities at and above this are critical (`system-cluster-critical`).
const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;

static NO_SPEC: PodSpec = empty_spec();

/// A spec for pods that have none, so that readers need no second path.
const fn empty_spec() -> PodSpec {
    PodSpec {
        active_deadline_seconds: None,
        affinity: None,
        automount_service_account_token: None,
        containers: Vec::new(),
        dns_config: None,
        dns_policy: None,
        enable_service_links: None,
        ephemeral_containers: None,
        eviction_responders: None,
        host_aliases: None,
        host_ipc: None,
        host_network: None,
        host_pid: None,
        host_users: None,
        hostname: None,
        hostname_override: None,
        image_pull_secrets: None,
        init_containers: None,
        node_name: None,
        node_selector: None,
        os: None,
        overhead: None,
        preemption_policy: None,
        priority: None,
        priority_class_name: None,
        readiness_gates: None,
        resource_claims: None,
        resources: None,
        restart_policy: None,
        runtime_class_name: None,
        scheduler_name: None,
        scheduling_gates: None,
        scheduling_group: None,
        security_context: None,
        service_account: None,
        service_account_name: None,
        set_hostname_as_fqdn: None,
        share_process_namespace: None,
        subdomain: None,
        termination_grace_period_seconds: None,
        tolerations: None,
        topology_spread_constraints: None,
        volumes: None,
    }
}

/// Short ways to what every rule reads.
pub trait PodExt {
    /// The pod's UID, empty when unset.
    fn uid(&self) -> &str;
    /// Its name.
    fn name(&self) -> &str;
    /// Its namespace.
    fn namespace(&self) -> &str;
    /// Its spec; an empty one when absent.
    fn spec(&self) -> &PodSpec;
    /// One annotation.
    fn annotation(&self, key: &str) -> Option<&str>;
    /// `name_namespace`, upstream's full name.
    fn full_name(&self) -> String {
        format!("{}_{}", self.name(), self.namespace())
    }
    /// Whether it came from a manifest.
    fn is_static(&self) -> bool {
        self.annotation(CONFIG_SOURCE).is_some_and(|source| source != "api")
    }
    /// Whether it is the API's image of a static pod.
    fn is_mirror(&self) -> bool {
        self.annotation(CONFIG_MIRROR).is_some()
    }
    /// Whether it is never evicted and always retried: static, mirror or of system priority.
    fn is_critical(&self) -> bool {
        self.is_static()
            || self.is_mirror()
            || self.spec().priority.is_some_and(|p| p >= SYSTEM_CRITICAL_PRIORITY)
    }
    /// Whether deletion was asked for.
    fn is_deleted(&self) -> bool;
    /// Whether it shares the node's network.
    fn is_host_network(&self) -> bool {
        self.spec().host_network == Some(true)
    }
    /// Init containers.
    fn init_containers(&self) -> &[Container] {
        self.spec().init_containers.as_deref().unwrap_or_default()
    }
    /// Grace period of the spec, seconds (30 by default).
    fn spec_grace(&self) -> i64 {
        self.spec().termination_grace_period_seconds.unwrap_or(30)
    }
    /// Its phase as stored, `Pending` when unset.
    fn phase(&self) -> &str;
}

impl PodExt for Pod {
    fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn spec(&self) -> &PodSpec {
        self.spec.as_ref().unwrap_or(&NO_SPEC)
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    fn is_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    fn phase(&self) -> &str {
        self.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or("Pending")
    }
}

/// How a pod restarts its containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Always.
    Always,
    /// Only after a failure.
    OnFailure,
    /// Never.
    Never,
}

impl RestartPolicy {
    /// Parses the spec's word; `Always` when unset.
    #[must_use]
    pub fn parse(word: Option<&str>) -> Self {
        match word {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }

    /// The pod's policy.
    #[must_use]
    pub fn of(pod: &Pod) -> Self {
        Self::parse(pod.spec().restart_policy.as_deref())
    }
}

/// Whether `container`, an init container, is a sidecar.
#[must_use]
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Whether a container that ended with `exit_code` runs again, by its own rules, its own policy
/// or the pod's (an init container of an `Always` pod retries failures only, which the caller
/// checks by the exit code).
#[must_use]
pub fn restarts_after_exit(pod: &Pod, container: &Container, exit_code: i32) -> bool {
    for rule in container.restart_policy_rules.iter().flatten() {
        let Some(codes) = &rule.exit_codes else { continue };
        let listed = codes.values.as_ref().is_some_and(|values| values.contains(&exit_code));
        let matches = match codes.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        };
        if matches {
            return rule.action.starts_with("Restart");
        }
    }
    let policy = match container.restart_policy.as_deref() {
        Some(word) => RestartPolicy::parse(Some(word)),
        None => RestartPolicy::of(pod),
    };
    match policy {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => exit_code != 0,
        RestartPolicy::Never => false,
    }
}

/// An ephemeral container in the shape of an ordinary one.
#[must_use]
pub fn ephemeral_as_container(ephemeral: &k8s_openapi::api::core::v1::EphemeralContainer) -> Container {
    let e = ephemeral.clone();
    Container {
        args: e.args,
        command: e.command,
        env: e.env,
        env_from: e.env_from,
        image: e.image,
        image_pull_policy: e.image_pull_policy,
        name: e.name,
        resources: e.resources,
        security_context: e.security_context,
        stdin: e.stdin,
        stdin_once: e.stdin_once,
        termination_message_path: e.termination_message_path,
        termination_message_policy: e.termination_message_policy,
        tty: e.tty,
        volume_devices: e.volume_devices,
        volume_mounts: e.volume_mounts,
        working_dir: e.working_dir,
        ..Container::default()
    }
}

/// Every container of the pod by name: init, main and ephemeral.
#[must_use]
pub fn find_container(pod: &Pod, name: &str) -> Option<Container> {
    let spec = pod.spec();
    spec.containers.iter().chain(pod.init_containers()).find(|c| c.name == name).cloned().or_else(|| {
        spec.ephemeral_containers.iter().flatten().find(|e| e.name == name).map(ephemeral_as_container)
    })
}

/// A quantity of a resource map; `None` when absent or unreadable (the API refused those).
#[must_use]
pub fn quantity(
    map: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>,
    name: &str,
) -> Option<Quantity> {
    map?.get(name)?.0.parse().ok()
}
