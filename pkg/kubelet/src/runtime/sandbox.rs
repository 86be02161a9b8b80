//! The sandbox's CRI configuration.

use copepod_cri::v1 as cri;
use k8s_openapi::api::core::v1::Pod;

use super::security::{self, SecurityError};
use super::{cgroup, dns, labels, logs};
use crate::config::Config;
use crate::pod::{PodExt, resources};

/// Everything a sandbox's configuration is made from.
#[derive(Debug)]
pub struct SandboxInput<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// Attempt number.
    pub attempt: u32,
    /// Resolver configuration.
    pub dns: dns::PodDns,
    /// Groups that volumes ask for.
    pub extra_groups: Vec<i64>,
    /// The pod's own user namespace.
    pub users: Option<cri::UserNamespace>,
}

/// Renders the configuration.
///
/// # Errors
/// When the pod asks for something the runtime cannot express.
pub fn render_sandbox(
    config: &Config,
    input: SandboxInput<'_>,
) -> Result<cri::PodSandboxConfig, SecurityError> {
    let pod = input.pod;
    let hostname = if pod.is_host_network() {
        String::new()
    } else {
        let (name, domain) = dns::hostname_and_domain(pod, &config.cluster_domain);
        dns::kernel_hostname(pod, &name, &domain).map_err(SecurityError::Invalid)?
    };
    Ok(cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: pod.name().to_owned(),
            namespace: pod.namespace().to_owned(),
            uid: pod.uid().to_owned(),
            attempt: input.attempt,
        }),
        hostname,
        log_directory: logs::pod_log_dir(&config.pod_logs_dir, pod).display().to_string(),
        dns_config: Some(cri::DnsConfig {
            servers: input.dns.servers,
            searches: input.dns.searches,
            options: input.dns.options,
        }),
        port_mappings: port_mappings(pod),
        labels: labels::sandbox_labels(pod),
        annotations: pod.metadata.annotations.clone().into_iter().flatten().collect(),
        linux: Some(linux(config, pod, (&input.extra_groups, input.users.as_ref()))?),
        windows: None,
    })
}

fn port_mappings(pod: &Pod) -> Vec<cri::PortMapping> {
    if pod.is_host_network() {
        return Vec::new();
    }
    let sidecars = pod.init_containers().iter().filter(|c| crate::pod::is_sidecar(c));
    pod.spec()
        .containers
        .iter()
        .chain(sidecars)
        .flat_map(|c| c.ports.iter().flatten())
        .map(|port| cri::PortMapping {
            protocol: match port.protocol.as_deref() {
                Some("UDP") => cri::Protocol::Udp.into(),
                Some("SCTP") => cri::Protocol::Sctp.into(),
                _ => cri::Protocol::Tcp.into(),
            },
            container_port: port.container_port,
            host_port: port.host_port.unwrap_or(0),
            host_ip: port.host_ip.clone().unwrap_or_default(),
        })
        .collect()
}

fn linux(
    config: &Config,
    pod: &Pod,
    (extra, users): (&[i64], Option<&cri::UserNamespace>),
) -> Result<cri::LinuxPodSandboxConfig, SecurityError> {
    let spec = pod.spec();
    let context = spec.security_context.as_ref();
    let cpu = resources::pod_overhead(pod, "cpu");
    let memory = resources::pod_overhead(pod, "memory");
    let overhead = (!cpu.is_zero() || !memory.is_zero()).then(|| cri::LinuxContainerResources {
        cpu_shares: resources::milli_to_shares(cpu.millis()),
        cpu_quota: resources::milli_to_quota(cpu.millis()),
        cpu_period: resources::QUOTA_PERIOD,
        memory_limit_in_bytes: memory.units(),
        ..Default::default()
    });
    let privileged = spec
        .containers
        .iter()
        .chain(pod.init_containers())
        .any(|c| c.security_context.as_ref().and_then(|s| s.privileged) == Some(true));
    let (groups, policy) = security::supplemental_groups(pod, extra)?;
    Ok(cri::LinuxPodSandboxConfig {
        cgroup_parent: cgroup::pod_cgroup_parent(config, pod),
        security_context: Some(cri::LinuxSandboxSecurityContext {
            namespace_options: Some(security::namespaces(pod, users)),
            selinux_options: context.and_then(|c| c.se_linux_options.as_ref()).map(security::selinux),
            run_as_user: context.and_then(|c| c.run_as_user).map(|value| cri::Int64Value { value }),
            run_as_group: context.and_then(|c| c.run_as_group).map(|value| cri::Int64Value { value }),
            supplemental_groups: groups,
            supplemental_groups_policy: policy.into(),
            privileged,
            // The sandbox process needs nothing, whatever its containers ask for.
            seccomp: Some(security::profile(cri::security_profile::ProfileType::RuntimeDefault, "")),
            ..Default::default()
        }),
        sysctls: context
            .and_then(|c| c.sysctls.as_ref())
            .into_iter()
            .flatten()
            .map(|s| (s.name.clone(), s.value.clone()))
            .collect(),
        overhead,
        resources: Some(resources::sandbox_limits(pod)),
    })
}
