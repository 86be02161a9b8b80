//! The managed `/etc/hosts` of pods.

use k8s_openapi::api::core::v1::{Container, Pod};

use super::dns;
use crate::pod::PodExt;

/// First line of a managed file.
const HEADER: &str = "# Kubernetes-managed hosts file.\n";
/// First line of a managed copy of the node's file.
const HOST_HEADER: &str = "# Kubernetes-managed hosts file (host network).\n";

/// Whether the kubelet mounts its file into `container`: not when it brings its own.
#[must_use]
pub fn is_managed(container: &Container) -> bool {
    !container.volume_mounts.iter().flatten().any(|m| m.mount_path == "/etc/hosts")
}

/// The file of a pod with its own network.
#[must_use]
pub fn render_hosts(pod: &Pod, pod_ips: &[String], cluster_domain: &str) -> String {
    let (hostname, domain) = dns::hostname_and_domain(pod, cluster_domain);
    let mut text = String::from(HEADER);
    text.push_str("127.0.0.1\tlocalhost\n");
    text.push_str("::1\tlocalhost ip6-localhost ip6-loopback\n");
    text.push_str("fe00::0\tip6-localnet\n");
    text.push_str("fe00::0\tip6-mcastprefix\n");
    text.push_str("fe00::1\tip6-allnodes\n");
    text.push_str("fe00::2\tip6-allrouters\n");
    for ip in pod_ips {
        if domain.is_empty() {
            text.push_str(&format!("{ip}\t{hostname}\n"));
        } else {
            text.push_str(&format!("{ip}\t{hostname}.{domain}\t{hostname}\n"));
        }
    }
    text.push_str(&aliases(pod));
    text
}

/// The file of a host-network pod: the node's own and the aliases.
#[must_use]
pub fn render_host_network_hosts(pod: &Pod, node_file: &str) -> String {
    format!("{HOST_HEADER}{node_file}{}", aliases(pod))
}

fn aliases(pod: &Pod) -> String {
    let list = pod.spec().host_aliases.as_deref().unwrap_or_default();
    if list.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n# Entries added by HostAliases.\n");
    for alias in list {
        text.push_str(&format!("{}\t{}\n", alias.ip, alias.hostnames.clone().unwrap_or_default().join("\t")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_has_names_and_aliases() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "namespace": "ns"},
            "spec": {"containers": [], "subdomain": "s",
                "hostAliases": [{"ip": "123.45.67.89", "hostnames": ["foo", "bar"]}]}
        }))
        .unwrap();
        let text = render_hosts(&pod, &["10.0.0.2".to_owned()], "cluster.local");
        assert!(text.contains("10.0.0.2\tp.s.ns.svc.cluster.local\tp\n"), "{text}");
        assert!(text.ends_with("\n# Entries added by HostAliases.\n123.45.67.89\tfoo\tbar\n"), "{text}");
        assert!(
            render_host_network_hosts(&pod, "127.0.0.1 x\n")
                .starts_with("# Kubernetes-managed hosts file (host")
        );
    }
}
