//! The outcome: what one port of a Service needs in the kernel.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

/// A transport protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP, also what an empty string means.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// Reads the API's name; `None` for one that no rule can match.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "TCP" | "" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            "SCTP" => Some(Self::Sctp),
            _ => None,
        }
    }

    /// The lower-case name, as rules spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }

    /// The number in the IP header.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }
}

/// A Service's namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl ServiceName {
    /// Makes a name.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One port of a Service; `namespace/name:port`, without the colon when the port has no name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortName {
    /// The Service.
    pub service: ServiceName,
    /// The port's name.
    pub port: Arc<str>,
    /// Its protocol.
    pub protocol: Protocol,
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.service)?;
        if self.port.is_empty() { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

/// An endpoint as a rule needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Backend {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether it runs on this node.
    pub local: bool,
}

/// Where a packet to one of the Service's addresses goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Route {
    /// To the endpoints under the Cluster policy.
    Cluster,
    /// To the endpoints under the Local policy.
    Local,
    /// Refused: there is no endpoint anywhere.
    Reject,
    /// Dropped: the policy is Local and no endpoint is here.
    Drop,
}

/// The desired rules of one port in one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortRules {
    /// Whose they are.
    pub name: PortName,
    /// The family of all addresses below.
    pub family: Family,
    /// The cluster address.
    pub cluster_ip: IpAddr,
    /// The port on cluster, external and load balancer addresses.
    pub port: u16,
    /// The port on the node; 0 when there is none.
    pub node_port: u16,
    /// External addresses.
    pub external_ips: Vec<IpAddr>,
    /// Load balancer addresses that packets arrive with.
    pub load_balancer_ips: Vec<IpAddr>,
    /// Who may use the load balancer's addresses; empty means everybody.
    pub source_ranges: Vec<IpNet>,
    /// Whether the node itself is in the ranges, so that its packets, which carry the load balancer's address as
    /// source, must pass too.
    pub sources_include_node: bool,
    /// Seconds a client stays with its endpoint; `None` without affinity.
    pub affinity: Option<u32>,
    /// Where packets to the cluster address go.
    pub internal: Route,
    /// Where packets from outside to the other addresses go. When this is [`Route::Drop`] but
    /// [`Self::cluster`] is not empty, packets of pods and of the node itself still go to the Cluster endpoints.
    pub external: Route,
    /// Whether the external policy is Local: the client's address is kept.
    pub external_local: bool,
    /// Endpoints under the Cluster policy, sorted; empty when no policy needs them.
    pub cluster: Vec<Backend>,
    /// Endpoints under the Local policy, sorted; empty when no policy needs them.
    pub local: Vec<Backend>,
    /// Every endpoint that still answers, chosen or not; only for UDP, whose stale flows must be told from live ones.
    pub serving: Vec<SocketAddr>,
    /// The Service's health check port and its number of ready local endpoints.
    pub health_check: Option<(u16, usize)>,
}

impl PortRules {
    /// Whether the port has addresses besides the cluster address.
    #[must_use]
    pub fn is_external(&self) -> bool {
        self.node_port != 0 || !self.external_ips.is_empty() || !self.load_balancer_ips.is_empty()
    }

    /// Every endpoint that some rule leads to, each once, sorted.
    #[must_use]
    pub fn reachable(&self) -> Vec<Backend> {
        let mut all: Vec<Backend> = self.cluster.iter().chain(&self.local).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether no endpoint exists at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.internal == Route::Reject
    }
}
