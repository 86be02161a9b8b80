//! `KubeletConfiguration`: the fields of upstream's configuration file that this kubelet honours.
//!
//! Where a field can have only one value here, the others are refused. An absent field means upstream's default.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use copepod_config::{ComponentConfig, GoDuration};
use k8s_openapi::api::core::v1::Taint;
use serde::{Deserialize, Serialize};

use super::{CgroupDriver, Config, ServerConfig};

/// How many pulls "without a limit" are.
const UNLIMITED_PULLS: usize = 1 << 16;

/// The file, with upstream's field names.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "upstream's reference explains the fields, by these names")]
pub struct KubeletConfiguration {
    pub static_pod_path: Option<PathBuf>,
    pub sync_frequency: Option<GoDuration>,
    pub address: Option<IpAddr>,
    pub port: Option<u16>,
    pub read_only_port: Option<u16>,
    pub tls_cert_file: Option<PathBuf>,
    pub tls_private_key_file: Option<PathBuf>,
    pub authentication: Authentication,
    pub authorization: Authorization,
    pub healthz_port: Option<u16>,
    pub healthz_bind_address: Option<IpAddr>,
    pub oom_score_adj: Option<i32>,
    pub cluster_domain: Option<String>,
    #[serde(rename = "clusterDNS")]
    pub cluster_dns: Option<Vec<IpAddr>>,
    pub node_status_update_frequency: Option<GoDuration>,
    pub node_status_report_frequency: Option<GoDuration>,
    pub node_lease_duration_seconds: Option<u64>,
    #[serde(rename = "imageMinimumGCAge")]
    pub image_minimum_gc_age: Option<GoDuration>,
    #[serde(rename = "imageGCHighThresholdPercent")]
    pub image_gc_high_threshold_percent: Option<u8>,
    #[serde(rename = "imageGCLowThresholdPercent")]
    pub image_gc_low_threshold_percent: Option<u8>,
    pub cgroup_root: Option<String>,
    #[serde(rename = "cgroupsPerQOS")]
    pub cgroups_per_qos: Option<bool>,
    pub cgroup_driver: Option<String>,
    pub runtime_request_timeout: Option<GoDuration>,
    pub max_pods: Option<u32>,
    #[serde(rename = "podCIDR")]
    pub pod_cidr: Option<String>,
    pub resolv_conf: Option<String>,
    pub serialize_image_pulls: Option<bool>,
    pub max_parallel_image_pulls: Option<usize>,
    pub eviction_hard: Option<BTreeMap<String, String>>,
    pub eviction_soft: Option<BTreeMap<String, String>>,
    pub eviction_soft_grace_period: Option<BTreeMap<String, GoDuration>>,
    pub eviction_pressure_transition_period: Option<GoDuration>,
    pub eviction_max_pod_grace_period: Option<i64>,
    pub eviction_minimum_reclaim: Option<BTreeMap<String, String>>,
    pub fail_swap_on: Option<bool>,
    pub fail_cgroup_v1: Option<bool>,
    pub container_log_max_size: Option<String>,
    pub container_log_max_files: Option<u32>,
    pub system_reserved: Option<BTreeMap<String, String>>,
    pub kube_reserved: Option<BTreeMap<String, String>>,
    pub allowed_unsafe_sysctls: Option<Vec<String>>,
    pub register_node: Option<bool>,
    pub register_with_taints: Option<Vec<Taint>>,
    pub container_runtime_endpoint: Option<String>,
    pub crash_loop_back_off: CrashLoopBackOff,
}

/// Who may come in.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "upstream's reference explains the fields, by these names")]
pub struct Authentication {
    pub x509: X509,
    pub webhook: Switch,
    pub anonymous: Switch,
}

/// By certificate.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "upstream's reference explains the fields, by these names")]
pub struct X509 {
    #[serde(rename = "clientCAFile")]
    pub client_ca_file: Option<PathBuf>,
}

/// A way in that is open or not.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "upstream's reference explains the fields, by these names")]
pub struct Switch {
    pub enabled: Option<bool>,
}

/// What they may do.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "upstream's reference explains the fields, by these names")]
pub struct Authorization {
    pub mode: Option<String>,
}

/// How containers that fail are started again.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "upstream's reference explains the fields, by these names")]
pub struct CrashLoopBackOff {
    pub max_container_restart_period: Option<GoDuration>,
}

impl ComponentConfig for KubeletConfiguration {
    const API_VERSION: &'static str = "kubelet.config.k8s.io/v1beta1";
    const KIND: &'static str = "KubeletConfiguration";
}

impl KubeletConfiguration {
    /// What the file asks for that cannot be had, with `swaps` as the text of `/proc/swaps` and `unified` for a machine
    /// whose cgroups are of version 2.
    #[must_use]
    pub fn problems(&self, swaps: &str, unified: bool) -> Vec<String> {
        let mut problems: Vec<String> = [
            only("readOnlyPort", self.read_only_port.as_ref(), &0),
            only("authentication.anonymous.enabled", self.authentication.anonymous.enabled.as_ref(), &false),
            only("authentication.webhook.enabled", self.authentication.webhook.enabled.as_ref(), &true),
            only("authorization.mode", said(self.authorization.mode.as_ref()), &"Webhook".to_owned()),
            only("registerNode", self.register_node.as_ref(), &true),
        ]
        .into_iter()
        .flatten()
        .collect();
        // Its first line is a heading.
        if self.fail_swap_on.unwrap_or(true) && swaps.lines().count() > 1 {
            problems.push("running with swap on is not supported, please disable swap or set --fail-swap-on flag to false".to_owned());
        }
        if self.fail_cgroup_v1.unwrap_or(true) && !unified {
            problems.push(
                "kubelet is configured to not run on a host using cgroup v1; failCgroupV1: false lets it"
                    .to_owned(),
            );
        }
        problems
    }

    /// The kubelet's configuration of this file. Names and paths of this node are left for the caller.
    ///
    /// # Errors
    /// Every value that means nothing.
    pub fn config(&self) -> Result<Config, Vec<String>> {
        let mut problems = Vec::new();
        let mut config = Config::default();
        self.set_server(&mut config);
        self.set_frequencies(&mut config);
        self.set_eviction(&mut config);
        self.set_images_and_logs(&mut config, &mut problems);
        self.set_cgroups(&mut config, &mut problems);
        set(&mut config.cluster_domain, said(self.cluster_domain.as_ref()).cloned());
        set(&mut config.cluster_dns, self.cluster_dns.clone());
        config.static_pod_path = self.static_pod_path.clone().filter(|path| !path.as_os_str().is_empty());
        set(&mut config.max_pods, self.max_pods.filter(|n| *n != 0));
        config.pod_cidr = said(self.pod_cidr.as_ref()).cloned();
        // An empty one is not absent: pods then get no nameserver of the host.
        set(
            &mut config.resolv_conf,
            self.resolv_conf.as_ref().map(|path| (!path.is_empty()).then(|| path.into())),
        );
        set(&mut config.runtime_endpoint, said(self.container_runtime_endpoint.as_ref()).cloned());
        set(&mut config.register_with_taints, self.register_with_taints.clone());
        set(&mut config.kube_reserved, self.kube_reserved.clone());
        set(&mut config.system_reserved, self.system_reserved.clone());
        set(&mut config.allowed_unsafe_sysctls, self.allowed_unsafe_sysctls.clone());
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }

    fn set_server(&self, config: &mut Config) {
        let file = |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        config.server = Some(ServerConfig {
            bind: SocketAddr::new(
                self.address.unwrap_or(any),
                self.port.filter(|p| *p != 0).unwrap_or(10250),
            ),
            cert_file: file(&self.tls_cert_file),
            key_file: file(&self.tls_private_key_file),
            client_ca_file: file(&self.authentication.x509.client_ca_file),
        });
        let healthz = config.healthz_bind;
        config.healthz_bind = SocketAddr::new(
            self.healthz_bind_address.unwrap_or_else(|| healthz.ip()),
            self.healthz_port.unwrap_or_else(|| healthz.port()),
        );
        config.oom_score_adj = self.oom_score_adj.or(config.oom_score_adj);
    }

    fn set_frequencies(&self, config: &mut Config) {
        let update = self.node_status_update_frequency;
        // Upstream's rule: whoever sets how often the status is looked at, and no more, means how often it is sent.
        let report =
            self.node_status_report_frequency.and_then(GoDuration::nonzero).map(GoDuration).or(update);
        for (place, given) in [
            (&mut config.sync_frequency, self.sync_frequency),
            (&mut config.node_status_update_frequency, update),
            (&mut config.node_status_report_frequency, report),
            (&mut config.runtime_request_timeout, self.runtime_request_timeout),
            (&mut config.image_min_gc_age, self.image_minimum_gc_age),
            (&mut config.eviction_pressure_transition, self.eviction_pressure_transition_period),
            (&mut config.max_container_backoff, self.crash_loop_back_off.max_container_restart_period),
        ] {
            set(place, given.and_then(GoDuration::nonzero));
        }
        let lease = self.node_lease_duration_seconds.filter(|s| *s != 0).map(Duration::from_secs);
        set(&mut config.node_lease_duration, lease);
    }

    fn set_eviction(&self, config: &mut Config) {
        set(&mut config.eviction_hard, self.eviction_hard.clone());
        set(&mut config.eviction_soft, self.eviction_soft.clone());
        let grace = self.eviction_soft_grace_period.clone();
        let grace = grace.map(|all| all.into_iter().map(|(signal, time)| (signal, time.0)).collect());
        set(&mut config.eviction_soft_grace_period, grace);
        set(&mut config.eviction_minimum_reclaim, self.eviction_minimum_reclaim.clone());
        set(&mut config.eviction_max_pod_grace, self.eviction_max_pod_grace_period);
    }

    fn set_images_and_logs(&self, config: &mut Config, problems: &mut Vec<String>) {
        set(&mut config.image_gc_high_percent, self.image_gc_high_threshold_percent);
        set(&mut config.image_gc_low_percent, self.image_gc_low_threshold_percent);
        set(&mut config.container_log_max_files, self.container_log_max_files.filter(|n| *n != 0));
        if let Some(text) = said(self.container_log_max_size.as_ref()) {
            let bytes =
                text.parse::<copepod_api::Quantity>().ok().and_then(|q| u64::try_from(q.units()).ok());
            match bytes {
                Some(bytes) => config.container_log_max_size = bytes,
                None => problems.push(format!("containerLogMaxSize {text:?} is no quantity")),
            }
        }
        let serial =
            self.serialize_image_pulls.unwrap_or_else(|| self.max_parallel_image_pulls.is_none_or(|n| n < 2));
        match (serial, self.max_parallel_image_pulls) {
            (true, Some(n)) if n > 1 => {
                problems.push(
                    "maxParallelImagePulls can be more than 1 only with serializeImagePulls: false"
                        .to_owned(),
                );
            }
            (true, _) => config.max_parallel_image_pulls = 1,
            (false, limit) => config.max_parallel_image_pulls = limit.unwrap_or(UNLIMITED_PULLS),
        }
    }

    fn set_cgroups(&self, config: &mut Config, problems: &mut Vec<String>) {
        set(&mut config.cgroup_root, said(self.cgroup_root.as_ref()).cloned());
        set(&mut config.cgroups_per_qos, self.cgroups_per_qos);
        match said(self.cgroup_driver.as_ref()).map(String::as_str) {
            None | Some("cgroupfs") => config.cgroup_driver = CgroupDriver::Cgroupfs,
            Some("systemd") => config.cgroup_driver = CgroupDriver::Systemd,
            Some(other) => problems.push(format!("cgroupDriver {other:?} is not one of cgroupfs, systemd")),
        }
    }
}

fn set<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}

/// A text that is not empty.
fn said(text: Option<&String>) -> Option<&String> {
    text.filter(|text| !text.is_empty())
}

/// A field that has one value here.
fn only<T: PartialEq + std::fmt::Debug>(field: &str, given: Option<&T>, value: &T) -> Option<String> {
    let other = given.filter(|given| *given != value)?;
    Some(format!("{field}: {other:?} is not supported here, only {value:?} is"))
}

#[cfg(test)]
mod tests {
    use copepod_config::parse_component;

    use super::*;

    fn read(fields: &str) -> KubeletConfiguration {
        let text =
            format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{fields}\n");
        parse_component(&text).unwrap()
    }

    /// What kubeadm writes, with its zeros.
    const KUBEADM: &str = "
authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 0s, enabled: true}, x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: \"\"
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
logging: {flushFrequency: 0, options: {json: {infoBufferSize: \"0\"}, text: {infoBufferSize: \"0\"}}, verbosity: 0}
memorySwap: {}
nodeStatusReportFrequency: 0s
staticPodPath: /etc/kubernetes/manifests
syncFrequency: 0s
failSwapOn: false
failCgroupV1: false";

    #[test]
    fn kubeadms_file_is_understood() {
        let file = read(KUBEADM);
        assert_eq!(file.problems("Filename\n/swap\n", false), Vec::<String>::new());
        let config = file.config().unwrap();
        assert_eq!(config.cgroup_driver, CgroupDriver::Systemd);
        assert_eq!(config.static_pod_path.as_deref(), Some("/etc/kubernetes/manifests".as_ref()));
        assert_eq!(
            config.server.unwrap().client_ca_file.as_deref(),
            Some("/etc/kubernetes/pki/ca.crt".as_ref())
        );
        assert_eq!(config.sync_frequency, Duration::from_secs(60));
        assert_eq!(config.runtime_endpoint, Config::default().runtime_endpoint);
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        let file = read(
            "authentication: {anonymous: {enabled: true}}\nauthorization: {mode: AlwaysAllow}\nreadOnlyPort: 10255",
        );
        let problems = file.problems("Filename\n", true);
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[2].contains("authorization.mode: \"AlwaysAllow\""), "{problems:?}");
        let machine = read("").problems("Filename\n/swap\n", false);
        assert_eq!(
            machine.len(),
            2,
            "swap and the first version of cgroups are refused by default: {machine:?}"
        );
        let wrong = read(
            "cgroupDriver: x\ncontainerLogMaxSize: much\nmaxParallelImagePulls: 3\nserializeImagePulls: true",
        );
        assert_eq!(wrong.config().unwrap_err().len(), 3);
    }

    #[test]
    fn values_take_effect() {
        let config = read(
            "nodeStatusUpdateFrequency: 4s\ncontainerLogMaxSize: 1Mi\nmaxParallelImagePulls: 3\nresolvConf: ''\n\
             evictionHard: {memory.available: 1Mi}\noomScoreAdj: 0\ncrashLoopBackOff: {maxContainerRestartPeriod: 7s}",
        )
        .config()
        .unwrap();
        assert_eq!(config.node_status_update_frequency, Duration::from_secs(4));
        assert_eq!(config.node_status_report_frequency, Duration::from_secs(4));
        assert_eq!((config.container_log_max_size, config.max_parallel_image_pulls), (1 << 20, 3));
        assert_eq!((config.resolv_conf, config.oom_score_adj), (None, Some(0)));
        assert_eq!(config.eviction_hard.len(), 1);
        assert_eq!(config.max_container_backoff, Duration::from_secs(7));
    }
}
