//! The table's contents as values: printable for people and golden files, encodable for the kernel.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

use ipnet::Ipv4Net;

use crate::settings::LocalDetect;

/// The table's named sets and maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SetId {
    ServiceEndpoints,
    AffinityEndpoints,
    HairpinConnections,
    NodePortIps,
    ClusterIps,
    NoEndpointServices,
    NoEndpointNodePorts,
    FirewallIps,
    ServiceIps,
    ServiceNodePorts,
}

impl SetId {
    pub(crate) const ALL: [Self; 10] = [
        Self::ServiceEndpoints,
        Self::AffinityEndpoints,
        Self::HairpinConnections,
        Self::NodePortIps,
        Self::ClusterIps,
        Self::NoEndpointServices,
        Self::NoEndpointNodePorts,
        Self::FirewallIps,
        Self::ServiceIps,
        Self::ServiceNodePorts,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ServiceEndpoints => "service-endpoints",
            Self::AffinityEndpoints => "affinity-endpoints",
            Self::HairpinConnections => "hairpin-connections",
            Self::NodePortIps => "nodeport-ips",
            Self::ClusterIps => "cluster-ips",
            Self::NoEndpointServices => "no-endpoint-services",
            Self::NoEndpointNodePorts => "no-endpoint-nodeports",
            Self::FirewallIps => "firewall-ips",
            Self::ServiceIps => "service-ips",
            Self::ServiceNodePorts => "service-nodeports",
        }
    }
}

/// An element's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    Address(Ipv4Addr),
    AddressPort(Ipv4Addr, u8, u16),
    Port(u8, u16),
    /// Source and destination are the same address.
    Hairpin(Ipv4Addr, u8, u16),
    Index(u32),
}

/// What an element maps to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Value {
    Member,
    Goto(String),
    Drop,
    Endpoint(SocketAddrV4),
}

/// One rule of a chain we write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Ask for masquerading.
    Mark(u32),
    /// Ask for masquerading of packets to a cluster address that no pod sent (`None`: of all).
    MarkClusterIps(u32, Option<LocalDetect>),
    MarkIfSourceLocal(u32),
    GotoIfPod(LocalDetect, String),
    GotoIfSourceLocal(String),
    Goto(String),
    Jump(String),
    JumpIfNew(String),
    ReturnFrom(Ipv4Net),
    Drop,
    Reject,
    DropTo(Ipv4Net),
    RejectClusterIps,
    /// Masquerade what carries the mark, and take the mark away.
    MasqueradeMarked(u32),
    MasqueradeHairpin,
    /// `ip daddr . meta l4proto . th dport vmap @map`
    ByAddress(SetId),
    /// Node port look-up; `true` only on addresses in `nodeport-ips`, else on every local one but loopback.
    ByNodePort(SetId, bool),
    /// The same in the filter chains, where the packet is known to be for this machine.
    ByNodePortInput(SetId, bool),
    Dnat(u8, SocketAddrV4),
    DnatRandom {
        protocol: u8,
        count: u32,
        first: u32,
    },
    GotoIfIn {
        set: String,
        chain: String,
    },
    GotoRandom {
        count: u32,
        first: u32,
    },
    Remember {
        set: String,
    },
}

pub(crate) fn protocol_name(number: u8) -> &'static str {
    match number {
        17 => "udp",
        132 => "sctp",
        _ => "tcp",
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(ip) => write!(f, "{ip}"),
            Self::AddressPort(ip, proto, port) => write!(f, "{ip} . {} . {port}", protocol_name(*proto)),
            Self::Port(proto, port) => write!(f, "{} . {port}", protocol_name(*proto)),
            Self::Hairpin(ip, proto, port) => write!(f, "{ip} . {ip} . {} . {port}", protocol_name(*proto)),
            Self::Index(index) => write!(f, "{index}"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member => Ok(()),
            Self::Goto(chain) => write!(f, " : goto {chain}"),
            Self::Drop => write!(f, " : drop"),
            Self::Endpoint(addr) => write!(f, " : {} . {}", addr.ip(), addr.port()),
        }
    }
}

fn pod(local: &LocalDetect, is_pod: bool) -> String {
    let negate = if is_pod { "" } else { "!= " };
    match local {
        LocalDetect::None => String::new(),
        LocalDetect::ClusterCidr(net) => format!("ip saddr {negate}{net} "),
        LocalDetect::InterfacePrefix(prefix) => format!("iifname {negate}\"{prefix}*\" "),
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = |in_set: bool| if in_set { "ip daddr @nodeport-ips" } else { "ip daddr != 127.0.0.0/8" };
        match self {
            Self::Mark(bit) => write!(f, "mark set mark or {bit:#x}"),
            Self::MarkClusterIps(bit, local) => {
                let from = local.as_ref().map(|l| pod(l, false)).unwrap_or_default();
                write!(f, "ip daddr @cluster-ips {from}mark set mark or {bit:#x}")
            }
            Self::MarkIfSourceLocal(bit) => write!(f, "fib saddr type local mark set mark or {bit:#x}"),
            Self::GotoIfPod(local, chain) => write!(f, "{}goto {chain}", pod(local, true)),
            Self::GotoIfSourceLocal(chain) => write!(f, "fib saddr type local goto {chain}"),
            Self::Goto(chain) => write!(f, "goto {chain}"),
            Self::Jump(chain) => write!(f, "jump {chain}"),
            Self::JumpIfNew(chain) => write!(f, "ct state new jump {chain}"),
            Self::ReturnFrom(net) => write!(f, "ip saddr {net} return"),
            Self::Drop => write!(f, "drop"),
            Self::Reject => write!(f, "reject"),
            Self::DropTo(net) => write!(f, "ip daddr {net} drop"),
            Self::RejectClusterIps => write!(f, "ip daddr @cluster-ips reject"),
            Self::MasqueradeMarked(bit) => {
                write!(f, "mark and {bit:#x} != 0 mark set mark xor {bit:#x} masquerade fully-random")
            }
            Self::MasqueradeHairpin => write!(
                f,
                "ct status dnat ip saddr . ip daddr . meta l4proto . th dport @hairpin-connections \
                 masquerade fully-random"
            ),
            Self::ByAddress(set) => write!(f, "ip daddr . meta l4proto . th dport vmap @{}", set.name()),
            Self::ByNodePort(set, true) => {
                write!(f, "{} meta l4proto . th dport vmap @{}", on(true), set.name())
            }
            Self::ByNodePort(set, false) => {
                write!(f, "fib daddr type local {} meta l4proto . th dport vmap @{}", on(false), set.name())
            }
            Self::ByNodePortInput(set, limited) => {
                write!(f, "{} meta l4proto . th dport vmap @{}", on(*limited), set.name())
            }
            Self::Dnat(proto, to) => write!(f, "meta l4proto {} dnat to {to}", protocol_name(*proto)),
            Self::DnatRandom { protocol, count, first } => write!(
                f,
                "meta l4proto {} dnat to numgen random mod {count} offset {first} map @service-endpoints",
                protocol_name(*protocol)
            ),
            Self::GotoIfIn { set, chain } => write!(f, "ip saddr @{set} goto {chain}"),
            Self::GotoRandom { count, first } => {
                write!(f, "numgen random mod {count} offset {first} vmap @affinity-endpoints")
            }
            Self::Remember { set } => write!(f, "update @{set} {{ ip saddr }}"),
        }
    }
}
