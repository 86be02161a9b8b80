//! Upstream's etcd, kube-apiserver, controller-manager and scheduler beside the kubelet.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use copepod_pki::{Authority, Leaf, ensure_signing_key};
use copepod_testkit::{Service, upstream};
use libtest_mimic::Failed;

use crate::bench::Bench;

/// The kubelet's credentials.
pub const KUBELET_CONFIG: &str = "/etc/kubernetes/kubelet.conf";
const ADMIN_CONFIG: &str = "/etc/kubernetes/admin.conf";
const PKI: &str = "/etc/kubernetes/pki";

/// What keeps the tests with an API server from running.
pub fn missing() -> Option<String> {
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "bridge"]
        .iter()
        .find_map(|program| upstream(program).err().map(|e| e.to_string()))
}

/// Starts the control plane and waits until it answers.
pub fn start(bench: &mut Bench) -> Result<(), Failed> {
    identities(bench)?;
    network(bench)?;
    let pki = |name: &str| format!("{PKI}/{name}");
    let etcd = ["--data-dir=/var/lib/etcd", "--unsafe-no-fsync"];
    service(bench, "etcd", etcd.map(str::to_owned).to_vec())?;
    let api = vec![
        "--etcd-servers=http://127.0.0.1:2379".to_owned(),
        format!("--advertise-address={}", bench.node.address()),
        "--allow-privileged=true".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        format!("--client-ca-file={}", pki("ca.crt")),
        format!("--tls-cert-file={}", pki("apiserver.crt")),
        format!("--tls-private-key-file={}", pki("apiserver.key")),
        format!("--kubelet-client-certificate={}", pki("admin.crt")),
        format!("--kubelet-client-key={}", pki("admin.key")),
        "--kubelet-preferred-address-types=InternalIP,Hostname".to_owned(),
        "--cert-dir=/run/apiserver".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        format!("--service-account-key-file={}", pki("sa.pub")),
        format!("--service-account-signing-key-file={}", pki("sa.key")),
        "--service-cluster-ip-range=10.96.0.0/12".to_owned(),
    ];
    service(bench, "kube-apiserver", api)?;
    bench.within(Duration::from_secs(90), "the API server is ready", || {
        kubectl(bench, "get --raw /readyz").is_ok_and(|t| t == "ok")
    })?;
    let manager = vec![
        "--kubeconfig=/etc/kubernetes/kube-controller-manager.conf".to_owned(),
        format!("--root-ca-file={}", pki("ca.crt")),
        format!("--service-account-private-key-file={}", pki("sa.key")),
        "--use-service-account-credentials=true".to_owned(),
        "--leader-elect=false".to_owned(),
        "--allocate-node-cidrs=true".to_owned(),
        "--cluster-cidr=10.244.0.0/16".to_owned(),
        "--cert-dir=/run/kcm".to_owned(),
    ];
    service(bench, "kube-controller-manager", manager)?;
    let scheduler = vec![
        "--kubeconfig=/etc/kubernetes/kube-scheduler.conf".to_owned(),
        "--leader-elect=false".to_owned(),
        "--cert-dir=/run/scheduler".to_owned(),
    ];
    service(bench, "kube-scheduler", scheduler)
}

/// Runs kubectl as admin.
pub fn kubectl(bench: &Bench, args: &str) -> Result<String, Failed> {
    let program = upstream("kubectl")?;
    bench.sh(&format!("{} --kubeconfig={ADMIN_CONFIG} {args}", program.display()))
}

fn service(bench: &mut Bench, name: &str, args: Vec<String>) -> Result<(), Failed> {
    bench.node.start_service(Service::new(name, upstream(name)?).args(args))?;
    Ok(())
}

fn identities(bench: &Bench) -> Result<(), Failed> {
    let now = copepod_sys::clock::now();
    let dir = bench.node.host_path(PKI);
    std::fs::create_dir_all(&dir)?;
    let ca = Authority::ensure(&dir.join("ca"), "kubernetes", now)?;
    ensure_signing_key(&dir)?;
    let dns = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"].map(str::to_owned);
    let ips = BTreeSet::from([
        bench.node.address().into(),
        "127.0.0.1".parse().unwrap(),
        "10.96.0.1".parse().unwrap(),
    ]);
    ca.ensure_leaf(&dir.join("apiserver"), &Leaf::server("kube-apiserver", BTreeSet::from(dns), ips), now)?;
    for (file, user, group) in [
        ("admin", "kubernetes-admin", Some("system:masters")),
        ("kube-controller-manager", "system:kube-controller-manager", None),
        ("kube-scheduler", "system:kube-scheduler", None),
        ("kubelet", "system:node:node1", Some("system:nodes")),
    ] {
        ca.ensure_leaf(&dir.join(file), &Leaf::client(user, group), now)?;
        std::fs::write(bench.node.host_path(format!("/etc/kubernetes/{file}.conf")), kubeconfig(file))?;
    }
    Ok(())
}

fn kubeconfig(user: &str) -> String {
    format!(
        r#"{{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"clusters": [{{"name": "c", "cluster": {{"server": "https://127.0.0.1:6443", "certificate-authority": "{PKI}/ca.crt"}}}}],
"users": [{{"name": "u", "user": {{"client-certificate": "{PKI}/{user}.crt", "client-key": "{PKI}/{user}.key"}}}}],
"contexts": [{{"name": "c", "context": {{"cluster": "c", "user": "u"}}}}]}}"#
    )
}

/// A bridge with upstream's plugins.
fn network(bench: &Bench) -> Result<(), Failed> {
    let bin = bench.node.host_path("/opt/cni/bin");
    std::fs::create_dir_all(&bin)?;
    for plugin in ["bridge", "host-local", "loopback", "portmap"] {
        let from: PathBuf = upstream(plugin)?;
        std::fs::copy(&from, bin.join(Path::new(plugin)))?;
    }
    let list = r#"{"cniVersion": "1.0.0", "name": "pods", "plugins": [
        {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true,
         "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
        {"type": "portmap", "capabilities": {"portMappings": true}}]}"#;
    let dir = bench.node.host_path("/etc/cni/net.d");
    std::fs::create_dir_all(&dir)?;
    std::fs::write(dir.join("10-pods.conflist"), list)?;
    Ok(())
}
