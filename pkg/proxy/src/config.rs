//! What the proxy needs to know.

mod file;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use copepod_dataplane::{LocalDetect, Mode, Settings};
use ipnet::IpNet;

pub use file::KubeProxyConfiguration;

/// On which of the node's addresses node ports answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NodePortAddresses {
    /// Upstream's default of the mode: `primary` in nftables, every address in iptables.
    #[default]
    Default,
    /// The node's own address of each family.
    Primary,
    /// Every address of the machine.
    All,
}

/// The proxy's configuration. The flag of upstream's kube-proxy is named where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `--kubeconfig`.
    pub kubeconfig: PathBuf,
    /// `--hostname-override`: the name of this Node.
    pub node_name: String,
    /// The node's addresses, the primary one of each family first; those of its Node when empty.
    pub node_ips: Vec<IpAddr>,
    /// `--proxy-mode`.
    pub mode: Mode,
    /// `--cluster-cidr`: the pods' addresses; packets from elsewhere to a cluster address are masqueraded.
    pub cluster_cidrs: Vec<IpNet>,
    /// The cluster addresses' ranges; those of the ServiceCIDRs when empty.
    pub service_cidrs: Vec<IpNet>,
    /// `--nodeport-addresses`.
    pub node_port_addresses: NodePortAddresses,
    /// `--masquerade-all`.
    pub masquerade_all: bool,
    /// `--iptables-masquerade-bit`.
    pub masquerade_bit: u8,
    /// `--healthz-bind-address`.
    pub healthz: SocketAddr,
    /// `--metrics-bind-address`.
    pub metrics: SocketAddr,
    /// How long a queued change may wait before the proxy counts as unhealthy.
    pub health_timeout: Duration,
}

impl Config {
    /// Upstream's defaults.
    #[must_use]
    pub fn new(kubeconfig: impl Into<PathBuf>, node_name: impl Into<String>, node_ips: Vec<IpAddr>) -> Self {
        Self { kubeconfig: kubeconfig.into(), node_name: node_name.into(), node_ips, ..Self::default() }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            kubeconfig: PathBuf::new(),
            node_name: String::new(),
            node_ips: Vec::new(),
            mode: Mode::default(),
            cluster_cidrs: vec![IpNet::V4(ipnet::Ipv4Net::new_assert([10, 244, 0, 0].into(), 16))],
            service_cidrs: vec![IpNet::V4(ipnet::Ipv4Net::new_assert([10, 96, 0, 0].into(), 12))],
            node_port_addresses: NodePortAddresses::Default,
            masquerade_all: false,
            masquerade_bit: 14,
            healthz: SocketAddr::from(([0, 0, 0, 0], 10256)),
            metrics: SocketAddr::from(([127, 0, 0, 1], 10249)),
            health_timeout: Duration::from_secs(60),
        }
    }
}

impl Config {
    /// The driver's part.
    #[must_use]
    pub(crate) fn settings(&self) -> Settings {
        let v4 = |nets: &[IpNet]| -> Vec<ipnet::Ipv4Net> {
            nets.iter()
                .filter_map(|net| match net {
                    IpNet::V4(net) => Some(*net),
                    IpNet::V6(_) => None,
                })
                .collect()
        };
        let primary = || {
            let first = self.node_ips.iter().find_map(|ip| match ip {
                IpAddr::V4(ip) => Some(*ip),
                IpAddr::V6(_) => None,
            });
            // Without a known address every one answers: a node port that nobody can reach helps nobody.
            first.map(|ip| vec![ip])
        };
        let node_port_ips = match (&self.node_port_addresses, self.mode) {
            (NodePortAddresses::All, _) | (NodePortAddresses::Default, Mode::Iptables) => None,
            (NodePortAddresses::Primary, _) | (NodePortAddresses::Default, Mode::Nftables) => primary(),
        };
        Settings {
            local: v4(&self.cluster_cidrs)
                .first()
                .map_or(LocalDetect::None, |net| LocalDetect::ClusterCidr(*net)),
            node_port_ips,
            masquerade_mark: 1 << (self.masquerade_bit & 31),
            masquerade_all: self.masquerade_all,
            service_ranges: v4(&self.service_cidrs),
            localhost_node_ports: true,
        }
    }
}
