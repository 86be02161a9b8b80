//! What the server needs to know.

use std::net::SocketAddr;
use std::path::PathBuf;

/// The DNS server's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The API's kubeconfig; none means the pod's own ServiceAccount.
    pub kubeconfig: Option<PathBuf>,
    /// The cluster's domain, without the final dot.
    pub cluster_domain: String,
    /// Where to answer, UDP and TCP.
    pub listen: SocketAddr,
    /// `/health`: the process lives.
    pub health: SocketAddr,
    /// `/ready`: the zone is complete.
    pub ready: SocketAddr,
    /// `/metrics`.
    pub metrics: SocketAddr,
    /// Seconds a client may keep an answer of the zone.
    pub ttl: u32,
    /// Names the resolvers for other names.
    pub resolv_conf: PathBuf,
    /// Most seconds a forwarded answer is kept here.
    pub cache_seconds: u32,
}

impl Default for Config {
    /// As kubeadm configures CoreDNS.
    fn default() -> Self {
        let any = |port| SocketAddr::from(([0, 0, 0, 0], port));
        Self {
            kubeconfig: None,
            cluster_domain: "cluster.local".to_owned(),
            listen: any(53),
            health: any(8080),
            ready: any(8181),
            metrics: any(9153),
            ttl: 30,
            resolv_conf: PathBuf::from("/etc/resolv.conf"),
            cache_seconds: 30,
        }
    }
}
