//! The kubelet's configuration: one struct, upstream's defaults in the type.

mod file;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;

pub use file::KubeletConfiguration;

/// Who makes the cgroups of pods and containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CgroupDriver {
    /// Plain directories below the cgroup root.
    #[default]
    Cgroupfs,
    /// Slices named in systemd's way.
    Systemd,
}

/// The TLS server on :10250.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Where to listen.
    pub bind: SocketAddr,
    /// Serving certificate (PEM); made and self-signed when absent, as upstream does.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
    /// CA whose client certificates are accepted.
    pub client_ca_file: Option<PathBuf>,
}

/// Everything the kubelet is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of our Node object; lower-case.
    pub node_name: String,
    /// Addresses reported as the node's InternalIPs, one per family; found by itself when empty.
    pub node_ips: Vec<IpAddr>,
    /// Labels the node registers with, beside the well-known ones.
    pub node_labels: BTreeMap<String, String>,
    /// Taints the node registers with.
    pub register_with_taints: Vec<Taint>,
    /// State directory (`/var/lib/kubelet`).
    pub root_dir: PathBuf,
    /// Where containers log (`/var/log/pods`).
    pub pod_logs_dir: PathBuf,
    /// Symlinks for log shippers (`/var/log/containers`).
    pub container_logs_dir: PathBuf,
    /// Manifest directory; no static pods when absent.
    pub static_pod_path: Option<PathBuf>,
    /// CRI endpoint, `unix:///…`.
    pub runtime_endpoint: String,
    /// Deadline of an ordinary CRI call.
    pub runtime_request_timeout: Duration,
    /// Kubeconfig of our API identity; standalone when absent.
    pub kubeconfig: Option<PathBuf>,
    /// Nameservers of ClusterFirst pods.
    pub cluster_dns: Vec<IpAddr>,
    /// Suffix of cluster names (`cluster.local`).
    pub cluster_domain: String,
    /// Host file that gives upstream nameservers; `None` for no host DNS at all.
    pub resolv_conf: Option<PathBuf>,
    /// Cgroup naming.
    pub cgroup_driver: CgroupDriver,
    /// Parent of `kubepods`, in every hierarchy.
    pub cgroup_root: String,
    /// Whether to keep the QoS cgroup tree.
    pub cgroups_per_qos: bool,
    /// Where cgroup hierarchies are mounted.
    pub cgroup_mount: PathBuf,
    /// Healthz without TLS; loopback only.
    pub healthz_bind: SocketAddr,
    /// The server on :10250; not served when absent.
    pub server: Option<ServerConfig>,
    /// Most pods at once.
    pub max_pods: u32,
    /// Pod range announced to the runtime when the API gives none.
    pub pod_cidr: Option<String>,
    /// Longest time between two syncs of one pod.
    pub sync_frequency: Duration,
    /// How often the node's conditions are computed.
    pub node_status_update_frequency: Duration,
    /// How often an unchanged node status is written all the same.
    pub node_status_report_frequency: Duration,
    /// Length of the heartbeat lease; renewed every quarter.
    pub node_lease_duration: Duration,
    /// Resources kept for Kubernetes' own daemons, subtracted from allocatable (quantities).
    pub kube_reserved: BTreeMap<String, String>,
    /// Resources kept for the system.
    pub system_reserved: BTreeMap<String, String>,
    /// Hard eviction thresholds (signal → quantity or percentage).
    pub eviction_hard: BTreeMap<String, String>,
    /// Soft eviction thresholds; each needs a grace period.
    pub eviction_soft: BTreeMap<String, String>,
    /// How long a soft threshold has to be met.
    pub eviction_soft_grace_period: BTreeMap<String, Duration>,
    /// How much more than a threshold has to be reclaimed (signal → quantity or percentage).
    pub eviction_minimum_reclaim: BTreeMap<String, String>,
    /// Longest grace period of pods that a soft threshold evicts, seconds.
    pub eviction_max_pod_grace: i64,
    /// How long a pressure condition holds after it was last seen.
    pub eviction_pressure_transition: Duration,
    /// Image disk usage (percent) at which collection starts.
    pub image_gc_high_percent: u8,
    /// Image disk usage (percent) at which collection stops.
    pub image_gc_low_percent: u8,
    /// Youngest unused image that may be collected.
    pub image_min_gc_age: Duration,
    /// Size at which a container log is rotated, bytes.
    pub container_log_max_size: u64,
    /// Log files kept per container.
    pub container_log_max_files: u32,
    /// Sysctls allowed beyond the safe set (exact names or `prefix.*`).
    pub allowed_unsafe_sysctls: Vec<String>,
    /// oom_score_adj of our own process; `None` leaves it.
    pub oom_score_adj: Option<i32>,
    /// Longest container back-off.
    pub max_container_backoff: Duration,
    /// Most pulls at once; one at a time when 1.
    pub max_parallel_image_pulls: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            node_name: String::new(),
            node_ips: Vec::new(),
            node_labels: BTreeMap::new(),
            register_with_taints: Vec::new(),
            root_dir: "/var/lib/kubelet".into(),
            pod_logs_dir: "/var/log/pods".into(),
            container_logs_dir: "/var/log/containers".into(),
            static_pod_path: None,
            runtime_endpoint: "unix:///run/containerd/containerd.sock".to_owned(),
            runtime_request_timeout: Duration::from_secs(120),
            kubeconfig: None,
            cluster_dns: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            resolv_conf: Some("/etc/resolv.conf".into()),
            cgroup_driver: CgroupDriver::Cgroupfs,
            cgroup_root: "/".to_owned(),
            cgroups_per_qos: true,
            cgroup_mount: "/sys/fs/cgroup".into(),
            healthz_bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 10248)),
            server: None,
            max_pods: 110,
            pod_cidr: None,
            sync_frequency: Duration::from_secs(60),
            node_status_update_frequency: Duration::from_secs(10),
            node_status_report_frequency: Duration::from_secs(300),
            node_lease_duration: Duration::from_secs(40),
            kube_reserved: BTreeMap::new(),
            system_reserved: BTreeMap::new(),
            eviction_hard: default_eviction(),
            eviction_soft: BTreeMap::new(),
            eviction_soft_grace_period: BTreeMap::new(),
            eviction_minimum_reclaim: BTreeMap::new(),
            eviction_max_pod_grace: 0,
            eviction_pressure_transition: Duration::from_secs(300),
            image_gc_high_percent: 85,
            image_gc_low_percent: 80,
            image_min_gc_age: Duration::from_secs(120),
            container_log_max_size: 10 * 1024 * 1024,
            container_log_max_files: 5,
            allowed_unsafe_sysctls: Vec::new(),
            oom_score_adj: Some(-999),
            max_container_backoff: Duration::from_secs(300),
            max_parallel_image_pulls: 1,
        }
    }
}

fn default_eviction() -> BTreeMap<String, String> {
    [
        ("memory.available", "100Mi"),
        ("nodefs.available", "10%"),
        ("nodefs.inodesFree", "5%"),
        ("imagefs.available", "15%"),
        ("imagefs.inodesFree", "5%"),
    ]
    .map(|(signal, value)| (signal.to_owned(), value.to_owned()))
    .into()
}

impl Config {
    /// Every problem of this configuration; empty when it can work.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.node_name.is_empty() || self.node_name.chars().any(char::is_uppercase) {
            problems.push(format!("nodeName {:?} must be a lower-case name", self.node_name));
        }
        if !self.healthz_bind.ip().is_loopback() {
            problems.push(format!("healthzBindAddress {} must be a loopback address", self.healthz_bind));
        }
        if self.image_gc_low_percent >= self.image_gc_high_percent {
            problems.push("imageGCLowThresholdPercent must be below imageGCHighThresholdPercent".to_owned());
        }
        for signal in self.eviction_soft.keys() {
            if !self.eviction_soft_grace_period.contains_key(signal) {
                problems.push(format!("evictionSoft {signal} needs an evictionSoftGracePeriod"));
            }
        }
        if self.max_parallel_image_pulls == 0 {
            problems.push("maxParallelImagePulls must be at least 1".to_owned());
        }
        if self.container_log_max_files < 2 {
            problems.push("containerLogMaxFiles must be at least 2".to_owned());
        }
        problems
    }

    /// Directory of one pod: `<root>/pods/<uid>`.
    #[must_use]
    pub fn pod_dir(&self, uid: &str) -> PathBuf {
        self.root_dir.join("pods").join(uid)
    }
}
