//! The command lines of upstream's components. Kubeadm's, less what needs a real machine.

use crate::{Node, Part, TestkitError, upstream};

pub(super) const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";
const PKI: &str = "/etc/kubernetes/pki";
const SERVICES: &str = "10.96.0.0/12";
const PODS: &str = "10.244.0.0/16";

/// `PATH` with upstream's programs on it: containerd looks its shim up there, and the shim runc.
pub(super) fn path() -> Result<String, TestkitError> {
    let folders = ["containerd", "runc"].map(|name| {
        upstream(name)
            .map(|path| path.parent().map(|folder| folder.display().to_string()).unwrap_or_default())
    });
    let [containerd, runc] = folders;
    Ok(format!("{}:{}:/usr/sbin:/usr/bin:/sbin:/bin", containerd?, runc?))
}

pub(super) fn etcd() -> Vec<String> {
    owned(&[
        "--data-dir=/var/lib/etcd",
        // A power cut inside a namespace loses nothing that the kernel already has.
        "--unsafe-no-fsync",
        "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
    ])
}

/// The flags of `part` in `node`.
pub(super) fn of(part: Part, node: &Node) -> Vec<String> {
    match part {
        Part::Apiserver => apiserver(node),
        Part::ControllerManager => controller_manager(),
        Part::Scheduler => scheduler(),
        Part::Kubelet => kubelet(node),
        Part::Proxy => owned(&["--config=/etc/kubernetes/kube-proxy.yaml"]),
    }
}

fn owned(flags: &[&str]) -> Vec<String> {
    flags.iter().map(ToString::to_string).collect()
}

/// Flags whose value is a file of the PKI folder.
fn files(pairs: &[(&str, &str)]) -> impl Iterator<Item = String> {
    pairs.iter().map(|(flag, file)| format!("--{flag}={PKI}/{file}"))
}

fn apiserver(node: &Node) -> Vec<String> {
    let mut flags = owned(&[
        "--etcd-servers=http://127.0.0.1:2379",
        "--secure-port=6443",
        "--allow-privileged=true",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--enable-bootstrap-token-auth=true",
        "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    ]);
    flags.push(format!("--service-cluster-ip-range={SERVICES}"));
    // Not loopback: the endpoints of the Service `kubernetes` may not be that.
    flags.push(format!("--advertise-address={}", node.address()));
    flags.extend(files(&[
        ("client-ca-file", "ca.crt"),
        ("tls-cert-file", "apiserver.crt"),
        ("tls-private-key-file", "apiserver.key"),
        ("kubelet-client-certificate", "apiserver-kubelet-client.crt"),
        ("kubelet-client-key", "apiserver-kubelet-client.key"),
        ("proxy-client-cert-file", "front-proxy-client.crt"),
        ("proxy-client-key-file", "front-proxy-client.key"),
        ("requestheader-client-ca-file", "front-proxy-ca.crt"),
        ("service-account-key-file", "sa.pub"),
        ("service-account-signing-key-file", "sa.key"),
    ]));
    flags
}

/// The three flags by which a component knows and trusts the API server.
fn kubeconfig(name: &str) -> impl Iterator<Item = String> {
    let path = format!("/etc/kubernetes/{name}.conf");
    ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"]
        .into_iter()
        .map(move |flag| format!("--{flag}={path}"))
}

fn controller_manager() -> Vec<String> {
    let mut flags = owned(&[
        "--bind-address=127.0.0.1",
        "--controllers=*,bootstrapsigner,tokencleaner",
        "--allocate-node-cidrs=true",
        "--use-service-account-credentials=true",
        // Alone, it need not wait for the lease of a life before.
        "--leader-elect=false",
    ]);
    flags.push(format!("--cluster-cidr={PODS}"));
    flags.push(format!("--service-cluster-ip-range={SERVICES}"));
    flags.extend(kubeconfig("controller-manager"));
    flags.extend(files(&[
        ("client-ca-file", "ca.crt"),
        ("requestheader-client-ca-file", "front-proxy-ca.crt"),
        ("cluster-signing-cert-file", "ca.crt"),
        ("cluster-signing-key-file", "ca.key"),
        ("root-ca-file", "ca.crt"),
        ("service-account-private-key-file", "sa.key"),
    ]));
    flags
}

fn scheduler() -> Vec<String> {
    let mut flags = owned(&["--bind-address=127.0.0.1", "--leader-elect=false"]);
    flags.extend(kubeconfig("scheduler"));
    flags
}

fn kubelet(node: &Node) -> Vec<String> {
    let mut flags =
        owned(&["--config=/etc/kubernetes/kubelet.yaml", "--kubeconfig=/etc/kubernetes/kubelet.conf"]);
    flags.push(format!("--hostname-override={}", node.name()));
    flags.push(format!("--node-ip={}", node.address()));
    flags
}
