//! The files upstream's components read: keys, kubeconfigs, and their configuration in namespaces.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use copepod_pki::{Authority, Leaf, ensure_signing_key};
use serde_json::json;

use super::flags::CONTAINERD_SOCKET;
use super::{REGISTRIES, dns};
use crate::{Node, TestkitError, upstream};

pub(super) const ADMIN: &str = "/etc/kubernetes/admin.conf";
pub(super) const CONTAINERD_CONFIG: &str = "/etc/containerd/config.toml";
const CNI_PLUGINS: [&str; 4] = ["bridge", "loopback", "host-local", "portmap"];
/// The first address of the range of Services: the Service `kubernetes`.
const KUBERNETES_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// Clients of the API server: the file's name, the user, the group.
const CLIENTS: &[(&str, &str, Option<&str>)] = &[
    ("admin", "kubernetes-admin", Some("system:masters")),
    ("controller-manager", "system:kube-controller-manager", None),
    ("scheduler", "system:kube-scheduler", None),
    ("kube-proxy", "system:kube-proxy", None),
];

/// What a client needs to prove to be the administrator.
#[derive(Debug)]
pub(super) struct Credentials {
    authority: String,
    certificate: String,
    key: String,
}

impl Credentials {
    pub(super) fn kubeconfig(&self, server: &str) -> String {
        let data = |pem: &str| STANDARD.encode(pem);
        let document = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "oracle", "cluster": {
                "server": server, "certificate-authority-data": data(&self.authority),
            }}],
            "users": [{"name": "oracle", "user": {
                "client-certificate-data": data(&self.certificate), "client-key-data": data(&self.key),
            }}],
            "contexts": [{"name": "oracle", "context": {"cluster": "oracle", "user": "oracle"}}],
            "current-context": "oracle",
        });
        format!("{document:#}\n")
    }
}

/// Makes keys and kubeconfigs of the control plane; returns the administrator's.
pub(super) fn prepare(node: &Node) -> Result<Credentials, TestkitError> {
    let now = copepod_sys::clock::now();
    let dir = node.host_path("/etc/kubernetes/pki");
    fs::create_dir_all(&dir).map_err(|e| TestkitError::file("create", &dir, e))?;
    let authority = Authority::ensure(&dir.join("ca"), "kubernetes", now)?;
    let front_proxy = Authority::ensure(&dir.join("front-proxy-ca"), "front-proxy-ca", now)?;
    ensure_signing_key(&dir)?;
    authority.ensure_leaf(&dir.join("apiserver"), &server(node), now)?;
    let kubelet_client = Leaf::client("kube-apiserver-kubelet-client", Some("system:masters"));
    authority.ensure_leaf(&dir.join("apiserver-kubelet-client"), &kubelet_client, now)?;
    let front = Leaf::client("front-proxy-client", None);
    front_proxy.ensure_leaf(&dir.join("front-proxy-client"), &front, now)?;

    let server = format!("https://{}:6443", node.address());
    let issue = |user: &str, group: Option<&str>| -> Result<Credentials, TestkitError> {
        let (certificate, key) = authority.issue(&Leaf::client(user, group), now)?;
        Ok(Credentials { authority: authority.pem().to_string(), certificate, key })
    };
    for (name, user, group) in CLIENTS {
        let path = node.host_path(format!("/etc/kubernetes/{name}.conf"));
        write(&path, &issue(user, *group)?.kubeconfig(&server))?;
    }
    let user = format!("system:node:{}", node.name());
    let kubelet = issue(&user, Some("system:nodes"))?;
    write(&node.host_path("/etc/kubernetes/kubelet.conf"), &kubelet.kubeconfig(&server))?;
    write(&node.host_path("/etc/kubernetes/kube-proxy.yaml"), &format!("{:#}\n", proxy(node)))?;
    issue("kubernetes-admin", Some("system:masters"))
}

fn server(node: &Node) -> Leaf {
    let names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost", node.name()];
    let mut dns: BTreeSet<String> = names.iter().map(ToString::to_string).collect();
    dns.insert("kubernetes.default.svc.cluster.local".to_string());
    let addresses = [Ipv4Addr::LOCALHOST, KUBERNETES_SERVICE, node.address()];
    Leaf::server("kube-apiserver", dns, addresses.into_iter().map(IpAddr::V4).collect())
}

/// Writes what kubelet, containerd, CoreDNS and the CNI plugins read, and puts the plugins in their place.
pub(super) fn prepare_runtime(node: &Node) -> Result<(), TestkitError> {
    write(&node.host_path(CONTAINERD_CONFIG), &containerd())?;
    write(&node.host_path("/etc/kubernetes/kubelet.yaml"), &format!("{:#}\n", kubelet()))?;
    write(&node.host_path(dns::COREFILE), &dns::corefile(node))?;
    write(&node.host_path("/etc/cni/net.d/10-bridge.conflist"), &format!("{:#}\n", network()))?;
    let (bin, manifests) = (node.host_path("/opt/cni/bin"), node.host_path("/etc/kubernetes/manifests"));
    for dir in [&bin, &manifests] {
        fs::create_dir_all(dir).map_err(|e| TestkitError::file("create", dir, e))?;
    }
    for plugin in CNI_PLUGINS {
        let to = bin.join(plugin);
        fs::copy(upstream(plugin)?, &to).map_err(|e| TestkitError::file("copy", &to, e))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), TestkitError> {
    let dir = path.parent().unwrap_or(path);
    fs::create_dir_all(dir).map_err(|e| TestkitError::file("create", dir, e))?;
    fs::write(path, text).map_err(|e| TestkitError::file("write", path, e))
}

fn containerd() -> String {
    format!(
        "{CONTAINERD}[plugins.\"io.containerd.cri.v1.images\".registry]\n  config_path = \"{REGISTRIES}\"\n"
    )
}

/// A nested machine may not raise OOM scores, load AppArmor profiles or listen with NRI.
const CONTAINERD: &str = r#"version = 3
disabled_plugins = ["io.containerd.nri.v1.nri"]
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  enable_unprivileged_ports = true
  enable_unprivileged_icmp = true
  disable_apparmor = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/opt/cni/bin"]
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "registry.k8s.io/pause:3.10.2"
"#;

fn kubelet() -> serde_json::Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"}, "anonymous": {"enabled": false}},
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "clusterDNS": [dns::ADDRESS],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": format!("unix://{CONTAINERD_SOCKET}"),
        // The disk is the whole machine's, and others fill it.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "2%", "imagefs.available": "2%"},
        "imageGCHighThresholdPercent": 100,
        // Build machines still have version 1, and swap; the score is not a nested machine's to set.
        "failCgroupV1": false,
        "failSwapOn": false,
        "oomScoreAdj": 0,
        "resolvConf": "/etc/resolv.conf",
        "staticPodPath": "/etc/kubernetes/manifests",
    })
}

fn proxy(node: &Node) -> serde_json::Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": "/etc/kubernetes/kube-proxy.conf"},
        "clusterCIDR": "10.244.0.0/16",
        // The size of the connection table is the whole machine's.
        "conntrack": {"maxPerCore": 0, "min": 0},
        "hostnameOverride": node.name(),
        "mode": "nftables",
        "oomScoreAdj": 0,
    })
}

fn network() -> serde_json::Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "bridge",
        "plugins": [
            {
                "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
                "ipam": {
                    "type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}
