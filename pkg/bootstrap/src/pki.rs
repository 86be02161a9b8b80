//! The certificates of a node, by kubeadm's names (`kubeadm init phase certs`).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use copepod_pki::{Authority, Leaf, Usage, ensure_signing_key};
use jiff::Timestamp;

use crate::error::{BootstrapError, file};
use crate::node::Node;
use crate::write::make_dir;

/// The authorities of a cluster.
#[derive(Debug)]
pub struct Authorities {
    /// Signs the API server, the kubelet and every client.
    pub cluster: Authority,
    /// Signs what the API server shows to aggregated API servers.
    pub front_proxy: Authority,
    /// Signs etcd's members and clients.
    pub etcd: Authority,
}

/// The group of people who administer a cluster (kubeadm).
pub const ADMINS: &str = "kubeadm:cluster-admins";
/// The group that no authorizer can refuse.
pub const MASTERS: &str = "system:masters";

/// Makes sure of every authority, certificate and key; returns the authorities and the names of what was (re)issued.
///
/// # Errors
/// A damaged authority or signing key is an error, never replaced.
pub fn ensure(node: &Node, now: Timestamp) -> Result<(Authorities, Vec<&'static str>), BootstrapError> {
    let dir = node.layout.pki();
    make_dir(&dir.join("etcd"))?;
    link(&dir, &node.layout.pki_link())?;
    let authorities = Authorities {
        cluster: Authority::ensure(&dir.join("ca"), "kubernetes", now)?,
        front_proxy: Authority::ensure(&dir.join("front-proxy-ca"), "front-proxy-ca", now)?,
        etcd: Authority::ensure(&dir.join("etcd/ca"), "etcd-ca", now)?,
    };
    let mut issued = Vec::new();
    for (stem, authority, leaf) in leaves(node, &authorities) {
        if authority.ensure_leaf(&dir.join(stem), &leaf, now)? {
            issued.push(stem);
        }
    }
    if authorities.cluster.ensure_leaf(
        &node.layout.kubelet().join("pki/kubelet"),
        &kubelet_leaf(node),
        now,
    )? {
        issued.push("kubelet");
    }
    ensure_signing_key(&dir)?;
    Ok((authorities, issued))
}

/// Every certificate of the control plane: its file, who signs it, what it says.
fn leaves<'a>(node: &Node, a: &'a Authorities) -> Vec<(&'static str, &'a Authority, Leaf)> {
    let (dns, ips) = api_server_names(node);
    let local_dns = BTreeSet::from(["localhost".to_owned(), node.config.node_name.clone()]);
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let local_ips: BTreeSet<IpAddr> =
        loopback.into_iter().chain(node.config.node_ips.iter().copied()).collect();
    let member =
        || Leaf::server(&node.config.node_name, local_dns.clone(), local_ips.clone()).with_usage(Usage::Both);
    vec![
        ("apiserver", &a.cluster, Leaf::server("kube-apiserver", dns, ips)),
        ("apiserver-kubelet-client", &a.cluster, Leaf::client("kube-apiserver-kubelet-client", Some(ADMINS))),
        ("front-proxy-client", &a.front_proxy, Leaf::client("front-proxy-client", None)),
        ("etcd/server", &a.etcd, member()),
        ("etcd/peer", &a.etcd, member()),
        ("etcd/healthcheck-client", &a.etcd, Leaf::client("kube-etcd-healthcheck-client", None)),
        ("apiserver-etcd-client", &a.etcd, Leaf::client("kube-apiserver-etcd-client", None)),
    ]
}

/// The kubelet's serving certificate; upstream's names for the user and group of a node.
fn kubelet_leaf(node: &Node) -> Leaf {
    let name = &node.config.node_name;
    let ips = node.config.node_ips.iter().copied().collect();
    let mut leaf = Leaf::server(&format!("system:node:{name}"), BTreeSet::from([name.clone()]), ips);
    leaf.organization = Some("system:nodes".to_owned());
    leaf
}

/// Every name and address that clients may use for the API server.
fn api_server_names(node: &Node) -> (BTreeSet<String>, BTreeSet<IpAddr>) {
    let config = &node.config;
    let service =
        ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"].map(str::to_owned);
    let mut dns = BTreeSet::from(service);
    dns.insert(format!("kubernetes.default.svc.{}", config.cluster_domain));
    dns.insert(config.node_name.clone());
    let mut ips: BTreeSet<IpAddr> = config.node_ips.iter().copied().collect();
    ips.extend([IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]);
    ips.extend(config.kubernetes_ip());
    for name in &config.tls_sans {
        match name.parse() {
            Ok(ip) => {
                ips.insert(ip);
            }
            Err(_) => {
                dns.insert(name.clone());
            }
        }
    }
    (dns, ips)
}

/// `/etc/kubernetes/pki` → `/var/lib/copepod/pki`, relative so that it holds below any root.
fn link(target: &Path, link: &Path) -> Result<(), BootstrapError> {
    if link.symlink_metadata().is_ok() {
        return Ok(());
    }
    if let Some(parent) = link.parent() {
        make_dir(parent)?;
    }
    std::os::unix::fs::symlink(target, link).map_err(file("link", link))
}

#[cfg(test)]
mod tests {
    use super::*;
    use copepod_config::{Layout, NodeConfig};

    fn node(root: &Path) -> Node {
        let config = NodeConfig {
            node_name: "n1".to_owned(),
            node_ips: vec!["192.168.9.2".parse().unwrap()],
            tls_sans: vec!["api.example".to_owned(), "203.0.113.9".to_owned()],
            ..NodeConfig::default()
        };
        Node::resolve(Layout::new(root), config, Path::new("/bundle")).unwrap()
    }

    #[test]
    fn kubeadms_files_and_nothing_changes_the_second_time() {
        let root = tempfile::tempdir().unwrap();
        let now = "2026-11-30T12:00:00Z".parse().unwrap();
        let (_, issued) = ensure(&node(root.path()), now).unwrap();
        assert_eq!(issued.len(), 8);
        for file in ["ca.crt", "front-proxy-ca.key", "etcd/ca.crt", "etcd/healthcheck-client.key", "sa.pub"] {
            assert!(root.path().join("etc/kubernetes/pki").join(file).exists(), "{file}");
        }
        let ca = std::fs::read(root.path().join("var/lib/copepod/pki/ca.crt")).unwrap();
        let (_, issued) = ensure(&node(root.path()), now).unwrap();
        assert!(issued.is_empty(), "{issued:?}");
        let mut moved = node(root.path());
        moved.config.node_ips = vec!["192.168.9.3".parse().unwrap()];
        let (_, issued) = ensure(&moved, now).unwrap();
        assert_eq!(
            issued,
            ["apiserver", "etcd/server", "etcd/peer", "kubelet"],
            "a new address reissues servers only"
        );
        assert_eq!(std::fs::read(root.path().join("var/lib/copepod/pki/ca.crt")).unwrap(), ca);
    }
}
