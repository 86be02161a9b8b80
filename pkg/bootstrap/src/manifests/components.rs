//! What each component of the control plane is run with.

use std::path::PathBuf;

use serde_json::json;

use super::{COPEPOD_IMAGE, Component, ETCD_IMAGE, Mount, Probe};
use crate::node::Node;

/// The port on which etcd's member tells its health without TLS, on loopback.
const ETCD_METRICS_PORT: u16 = 2381;
const CONTROLLER_MANAGER_PORT: u16 = 10257;
const SCHEDULER_PORT: u16 = 10259;

pub(super) fn all(node: &Node) -> Vec<Component> {
    vec![etcd(node), api_server(node), controller_manager(node), scheduler(node)]
}

/// `--key=value` for each pair.
fn command(program: &str, flags: &[(&str, String)]) -> Vec<String> {
    std::iter::once(program.to_owned()).chain(flags.iter().map(|(k, v)| format!("--{k}={v}"))).collect()
}

fn directory(name: &'static str, path: PathBuf, read_only: bool) -> Mount {
    Mount { name, path, kind: "DirectoryOrCreate", read_only }
}

fn kubeconfig_mount(node: &Node, name: &str) -> Mount {
    Mount { name: "kubeconfig", path: node.layout.kubeconfig(name), kind: "File", read_only: true }
}

fn etcd(node: &Node) -> Component {
    let pki = |file: &str| node.layout.pki().join("etcd").join(file).display().to_string();
    let name = &node.config.node_name;
    // One member on one machine listens on loopback alone, so that a new address of the node never concerns it. Slow
    // ticks and a small history keep an idle member idle (its defaults are made for a quorum over a network).
    let flags = [
        ("name", name.clone()),
        ("data-dir", node.layout.etcd().display().to_string()),
        ("listen-client-urls", "https://127.0.0.1:2379".to_owned()),
        ("advertise-client-urls", "https://127.0.0.1:2379".to_owned()),
        ("listen-peer-urls", "https://127.0.0.1:2380".to_owned()),
        ("initial-advertise-peer-urls", "https://127.0.0.1:2380".to_owned()),
        ("initial-cluster", format!("{name}=https://127.0.0.1:2380")),
        ("listen-metrics-urls", format!("http://127.0.0.1:{ETCD_METRICS_PORT}")),
        ("cert-file", pki("server.crt")),
        ("key-file", pki("server.key")),
        ("client-cert-auth", "true".to_owned()),
        ("trusted-ca-file", pki("ca.crt")),
        ("peer-cert-file", pki("peer.crt")),
        ("peer-key-file", pki("peer.key")),
        ("peer-client-cert-auth", "true".to_owned()),
        ("peer-trusted-ca-file", pki("ca.crt")),
        ("snapshot-count", "10000".to_owned()),
        ("heartbeat-interval", "500".to_owned()),
        ("election-timeout", "2500".to_owned()),
        ("watch-progress-notify-interval", "5s".to_owned()),
        ("log-level", "warn".to_owned()),
    ];
    Component {
        name: "etcd",
        image: ETCD_IMAGE,
        command: command("etcd", &flags),
        env: vec![("GOGC", "50".to_owned()), ("GOMEMLIMIT", "64MiB".to_owned())],
        mounts: vec![
            directory("etcd-certs", node.layout.pki().join("etcd"), true),
            directory("etcd-data", node.layout.etcd(), false),
        ],
        probe: Probe { port: ETCD_METRICS_PORT, scheme: "HTTP", live: "/livez", ready: Some("/readyz") },
        cpu: "100m",
        memory: Some("100Mi"),
        annotations: json!({"kubeadm.kubernetes.io/etcd.advertise-client-urls": "https://127.0.0.1:2379"}),
    }
}

fn api_server(node: &Node) -> Component {
    let config = &node.config;
    let pki = |file: &str| node.layout.pki().join(file).display().to_string();
    let (first, last) = config.service_node_port_range;
    let flags = [
        ("advertise-address", node.ip().to_string()),
        ("allow-privileged", "true".to_owned()),
        ("authorization-mode", "Node,RBAC".to_owned()),
        ("client-ca-file", pki("ca.crt")),
        ("enable-admission-plugins", "NodeRestriction".to_owned()),
        ("enable-bootstrap-token-auth", "true".to_owned()),
        ("etcd-cafile", pki("etcd/ca.crt")),
        ("etcd-certfile", pki("apiserver-etcd-client.crt")),
        ("etcd-keyfile", pki("apiserver-etcd-client.key")),
        ("etcd-servers", "https://127.0.0.1:2379".to_owned()),
        ("kubelet-client-certificate", pki("apiserver-kubelet-client.crt")),
        ("kubelet-client-key", pki("apiserver-kubelet-client.key")),
        ("kubelet-preferred-address-types", "InternalIP,ExternalIP,Hostname".to_owned()),
        ("proxy-client-cert-file", pki("front-proxy-client.crt")),
        ("proxy-client-key-file", pki("front-proxy-client.key")),
        ("requestheader-allowed-names", "front-proxy-client".to_owned()),
        ("requestheader-client-ca-file", pki("front-proxy-ca.crt")),
        ("requestheader-extra-headers-prefix", "X-Remote-Extra-".to_owned()),
        ("requestheader-group-headers", "X-Remote-Group".to_owned()),
        ("requestheader-username-headers", "X-Remote-User".to_owned()),
        ("secure-port", config.api_port.to_string()),
        ("service-account-issuer", format!("https://kubernetes.default.svc.{}", config.cluster_domain)),
        ("service-account-key-file", pki("sa.pub")),
        ("service-account-signing-key-file", pki("sa.key")),
        ("service-cluster-ip-range", join(&config.service_cidrs)),
        ("service-node-port-range", format!("{first}-{last}")),
        ("tls-cert-file", pki("apiserver.crt")),
        ("tls-private-key-file", pki("apiserver.key")),
    ];
    let endpoint = format!("{}:{}", node.ip(), config.api_port);
    Component {
        name: "kube-apiserver",
        image: COPEPOD_IMAGE,
        command: command("kube-apiserver", &flags),
        env: Vec::new(),
        mounts: vec![directory("k8s-certs", node.layout.pki(), true)],
        probe: Probe { port: config.api_port, scheme: "HTTPS", live: "/livez", ready: Some("/readyz") },
        cpu: "250m",
        memory: None,
        annotations: json!({"kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint": endpoint}),
    }
}

fn controller_manager(node: &Node) -> Component {
    let config = &node.config;
    let pki = |file: &str| node.layout.pki().join(file).display().to_string();
    let kubeconfig = node.layout.kubeconfig("controller-manager").display().to_string();
    let flags = [
        ("allocate-node-cidrs", "true".to_owned()),
        ("authentication-kubeconfig", kubeconfig.clone()),
        ("authorization-kubeconfig", kubeconfig.clone()),
        ("bind-address", "127.0.0.1".to_owned()),
        ("client-ca-file", pki("ca.crt")),
        ("cluster-cidr", join(&config.cluster_cidrs)),
        ("cluster-name", "kubernetes".to_owned()),
        ("cluster-signing-cert-file", pki("ca.crt")),
        ("cluster-signing-key-file", pki("ca.key")),
        ("controllers", "*,bootstrapsigner,tokencleaner".to_owned()),
        ("kubeconfig", kubeconfig),
        ("leader-elect", "true".to_owned()),
        ("requestheader-client-ca-file", pki("front-proxy-ca.crt")),
        ("root-ca-file", pki("ca.crt")),
        ("service-account-private-key-file", pki("sa.key")),
        ("service-cluster-ip-range", join(&config.service_cidrs)),
        ("use-service-account-credentials", "true".to_owned()),
    ];
    Component {
        name: "kube-controller-manager",
        image: COPEPOD_IMAGE,
        command: command("kube-controller-manager", &flags),
        env: Vec::new(),
        mounts: vec![
            directory("k8s-certs", node.layout.pki(), true),
            kubeconfig_mount(node, "controller-manager"),
        ],
        probe: Probe { port: CONTROLLER_MANAGER_PORT, scheme: "HTTPS", live: "/healthz", ready: None },
        cpu: "200m",
        memory: None,
        annotations: json!({}),
    }
}

fn scheduler(node: &Node) -> Component {
    let kubeconfig = node.layout.kubeconfig("scheduler").display().to_string();
    let flags = [
        ("authentication-kubeconfig", kubeconfig.clone()),
        ("authorization-kubeconfig", kubeconfig.clone()),
        ("bind-address", "127.0.0.1".to_owned()),
        ("kubeconfig", kubeconfig),
        ("leader-elect", "true".to_owned()),
    ];
    Component {
        name: "kube-scheduler",
        image: COPEPOD_IMAGE,
        command: command("kube-scheduler", &flags),
        env: Vec::new(),
        mounts: vec![kubeconfig_mount(node, "scheduler")],
        probe: Probe { port: SCHEDULER_PORT, scheme: "HTTPS", live: "/livez", ready: Some("/readyz") },
        cpu: "100m",
        memory: None,
        annotations: json!({}),
    }
}

fn join(networks: &[ipnet::IpNet]) -> String {
    networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
