//! Cluster DNS of an oracle's node: upstream's CoreDNS as a service of init, behind the Service `kube-dns`.

use std::net::Ipv4Addr;

use super::files::ADMIN;
use crate::{Node, Service, TestkitError, upstream};

/// Where the kubelet tells pods to ask.
pub(super) const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// What CoreDNS reads.
pub(super) const COREFILE: &str = "/etc/coredns/Corefile";

/// It listens on the node's own address only: loopback's port may be a stub resolver's.
pub(super) fn corefile(node: &Node) -> String {
    format!(
        ".:53 {{\n  bind {}\n  errors\n  kubernetes cluster.local in-addr.arpa ip6.arpa {{\n    kubeconfig {ADMIN} oracle\n    \
         pods insecure\n    ttl 30\n  }}\n  cache 30\n  loadbalance\n}}\n",
        node.address()
    )
}

/// The Service and the slice by hand that leads to the node.
pub(super) fn objects(node: &Node) -> String {
    let ports = |rest: &str| {
        format!(
            "[{{name: dns, protocol: UDP, port: 53{rest}}}, {{name: dns-tcp, protocol: TCP, port: 53{rest}}}]"
        )
    };
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: kube-dns, namespace: kube-system, labels: {{k8s-app: kube-dns}}}}\n\
         spec: {{clusterIP: {ADDRESS}, ports: {}}}\n---\n\
         apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
         metadata: {{name: kube-dns-oracle, namespace: kube-system, labels: {{kubernetes.io/service-name: kube-dns}}}}\n\
         addressType: IPv4\nendpoints: [{{addresses: [{}], conditions: {{ready: true}}}}]\nports: {}\n",
        ports(", targetPort: 53"),
        node.address(),
        ports(""),
    )
}

/// Describes the service.
pub(super) fn service() -> Result<Service, TestkitError> {
    Ok(Service::new("coredns", upstream("coredns")?).args(["-conf", COREFILE]).restart(true))
}
