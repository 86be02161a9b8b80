//! What a driver must know besides the Services.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

/// How a packet from a pod is told from others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LocalDetect {
    /// It is not: nothing is masqueraded for coming from elsewhere.
    #[default]
    None,
    /// By its source address.
    ClusterCidr(Ipv4Net),
    /// By the interface it comes in on.
    InterfacePrefix(String),
}

/// A driver's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How pods are recognised.
    pub local: LocalDetect,
    /// The addresses node ports answer on; `None` means every address of the node.
    pub node_port_ips: Option<Vec<Ipv4Addr>>,
    /// The packet mark's bit that asks for masquerading (0x4000 upstream).
    pub masquerade_mark: u32,
    /// Masquerade everything that goes to a cluster address.
    pub masquerade_all: bool,
    /// Ranges of cluster addresses: packets to unallocated ones are dropped (nftables only, as upstream).
    pub service_ranges: Vec<Ipv4Net>,
    /// Node ports answer on 127.0.0.1 (iptables only, as upstream).
    pub localhost_node_ports: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            local: LocalDetect::None,
            node_port_ips: None,
            masquerade_mark: 1 << 14,
            masquerade_all: false,
            service_ranges: Vec::new(),
            localhost_node_ports: true,
        }
    }
}
