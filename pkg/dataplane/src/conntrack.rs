//! Stale UDP flows: a client that keeps sending from one port never makes a new connection, so the kernel would send
//! its packets to an endpoint that is gone for as long as it sends.
//!
//! The rule is upstream's: a UDP flow whose original destination is one of a Service's addresses, or a node port, and
//! whose reply comes from no serving endpoint, is deleted. A Service without endpoints has an empty set, so that its
//! flows end too.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use copepod_netcalc::{PortRules, Protocol};
use nlink::netlink::netfilter::{ConntrackEntry, IpProtocol};
use nlink::netlink::{Connection, Netfilter};

use crate::nft::NftError;

type Serving = Arc<HashSet<SocketAddr>>;

/// Who may answer for what.
#[derive(Debug, Default)]
pub struct FlowTable {
    addresses: HashMap<SocketAddr, Serving>,
    node_ports: HashMap<u16, Serving>,
}

/// A flow, as far as the decision needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale {
    /// Where the client sends to.
    pub original: SocketAddr,
    /// Who answers.
    pub reply: SocketAddr,
}

impl FlowTable {
    /// The table for `ports`; only UDP ones count.
    pub fn of<'a>(ports: impl Iterator<Item = &'a PortRules>) -> Self {
        let mut table = Self::default();
        for port in ports.filter(|p| p.name.protocol == Protocol::Udp) {
            let serving: Serving = Arc::new(port.serving.iter().copied().collect());
            let outside = port.external_ips.iter().chain(&port.load_balancer_ips);
            for ip in std::iter::once(&port.cluster_ip).chain(outside) {
                table.addresses.insert(SocketAddr::new(*ip, port.port), Arc::clone(&serving));
            }
            // Without endpoints a node port's number could be anybody's: upstream leaves those flows alone.
            if port.node_port != 0 && !serving.is_empty() {
                table.node_ports.insert(port.node_port, serving);
            }
        }
        table
    }

    /// Whether there is anything to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Whether the flow's endpoint is gone.
    #[must_use]
    pub fn is_stale(&self, flow: Stale) -> bool {
        let owner = self.addresses.get(&flow.original).or_else(|| self.node_ports.get(&flow.original.port()));
        owner.is_some_and(|serving| !serving.contains(&flow.reply))
    }
}

/// The stale ones among `flows`.
pub fn stale_flows(table: &FlowTable, flows: impl Iterator<Item = Stale>) -> Vec<Stale> {
    flows.filter(|flow| table.is_stale(*flow)).collect()
}

fn flow_of(entry: &ConntrackEntry) -> Option<Stale> {
    if entry.proto != IpProtocol::Udp {
        return None;
    }
    let address = |ip: Option<IpAddr>, port: Option<u16>| Some(SocketAddr::new(ip?, port?));
    Some(Stale {
        original: address(entry.orig.dst_ip, entry.orig.dst_port)?,
        reply: address(entry.reply.src_ip, entry.reply.src_port)?,
    })
}

/// Deletes stale flows; returns how many. The kernel's table is read once, entry by entry.
pub(crate) async fn clean(table: &FlowTable) -> Result<usize, NftError> {
    use futures::StreamExt;
    if table.is_empty() {
        return Ok(0);
    }
    let dump = Connection::<Netfilter>::new().map_err(NftError::Netlink)?;
    let mut stale = Vec::new();
    {
        let mut entries = dump.stream_conntrack_v4().await.map_err(NftError::Netlink)?;
        while let Some(entry) = entries.next().await {
            let entry = entry.map_err(NftError::Netlink)?;
            if flow_of(&entry).is_some_and(|flow| table.is_stale(flow)) {
                stale.push(entry);
            }
        }
    }
    let mut deleted = 0;
    for entry in &stale {
        match dump.del_conntrack_entry(entry).await {
            Ok(()) => deleted += 1,
            // It timed out in the meantime.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(NftError::Netlink(error)),
        }
    }
    Ok(deleted)
}

#[cfg(test)]
mod tests {
    use copepod_netcalc::{Family, PortName, Route, ServiceName};

    use super::*;

    fn port(serving: &[&str], node_port: u16) -> PortRules {
        PortRules {
            name: PortName {
                service: ServiceName::new("ns", "dns"),
                port: "".into(),
                protocol: Protocol::Udp,
            },
            family: Family::V4,
            cluster_ip: "10.96.0.10".parse().unwrap(),
            port: 53,
            node_port,
            external_ips: vec![],
            load_balancer_ips: vec![],
            source_ranges: vec![],
            sources_include_node: false,
            affinity: None,
            internal: Route::Cluster,
            external: Route::Cluster,
            external_local: false,
            cluster: vec![],
            local: vec![],
            serving: serving.iter().map(|s| s.parse().unwrap()).collect(),
            health_check: None,
        }
    }

    fn flow(original: &str, reply: &str) -> Stale {
        Stale { original: original.parse().unwrap(), reply: reply.parse().unwrap() }
    }

    #[test]
    fn a_flow_to_a_gone_endpoint_is_stale_also_when_none_is_left() {
        let live = port(&["10.244.0.5:53"], 0);
        let table = FlowTable::of([&live].into_iter());
        assert!(!table.is_stale(flow("10.96.0.10:53", "10.244.0.5:53")));
        assert!(table.is_stale(flow("10.96.0.10:53", "10.244.0.6:53")));
        assert!(!table.is_stale(flow("8.8.8.8:53", "8.8.8.8:53")));
        let empty = port(&[], 30_053);
        let table = FlowTable::of([&empty].into_iter());
        assert!(table.is_stale(flow("10.96.0.10:53", "10.244.0.5:53")));
        assert!(!table.is_stale(flow("192.168.0.1:30053", "10.244.0.5:53")));
    }

    #[test]
    fn a_node_port_is_matched_on_any_address() {
        let live = port(&["10.244.0.5:53"], 30_053);
        let table = FlowTable::of([&live].into_iter());
        assert!(table.is_stale(flow("192.168.0.1:30053", "10.244.0.9:53")));
    }
}
