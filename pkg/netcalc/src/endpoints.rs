//! Endpoints of one Service port, gathered from all its slices.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::input::{EndpointView, SliceView};
use crate::rules::{Family, Protocol};

/// One endpoint with all that choosing needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its address.
    pub ip: IpAddr,
    /// May get new connections.
    pub ready: bool,
    /// Answers.
    pub serving: bool,
    /// Is being stopped.
    pub terminating: bool,
    /// Runs on this node.
    pub local: bool,
    /// Zones that should use it.
    pub zones: Vec<Arc<str>>,
    /// Nodes that should use it.
    pub nodes: Vec<Arc<str>>,
}

/// What is kept of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slice {
    family: Family,
    ports: Vec<(Arc<str>, Protocol, u16)>,
    endpoints: Vec<Endpoint>,
}

impl Slice {
    /// Reads a slice; `None` when nothing in it can be served (host names, unknown types).
    pub(crate) fn read(view: &SliceView, node: &str) -> Option<Self> {
        let family = match view.address_type.as_str() {
            "IPv4" => Family::V4,
            "IPv6" => Family::V6,
            _ => return None,
        };
        let ports = view
            .ports
            .iter()
            .filter_map(|p| {
                let protocol = Protocol::parse(p.protocol.as_deref().unwrap_or_default())?;
                Some((
                    p.name.as_deref().unwrap_or_default().into(),
                    protocol,
                    p.port.filter(|port| *port != 0)?,
                ))
            })
            .collect();
        let endpoints = view.endpoints.iter().filter_map(|e| read_endpoint(e, node, family)).collect();
        Some(Self { family, ports, endpoints })
    }
}

fn read_endpoint(view: &EndpointView, node: &str, family: Family) -> Option<Endpoint> {
    let ip: IpAddr = view.addresses.first()?.parse().ok().filter(|ip| Family::of(*ip) == family)?;
    let ready = view.conditions.ready.unwrap_or(true);
    let hints = view.hints.as_ref();
    let names = |list: &[crate::input::Named]| list.iter().map(|n| Arc::from(n.name.as_str())).collect();
    Some(Endpoint {
        ip,
        ready,
        serving: view.conditions.serving.unwrap_or(ready),
        terminating: view.conditions.terminating.unwrap_or(false),
        local: view.node_name.as_deref().is_some_and(|name| name == node),
        zones: hints.map(|h| names(&h.for_zones)).unwrap_or_default(),
        nodes: hints.map(|h| names(&h.for_nodes)).unwrap_or_default(),
    })
}

/// The endpoints of one port, by address. An address that several slices name (a pod that ended and one that took
/// its address) is the best of them: ready before serving before neither.
pub(crate) fn gather<'a>(
    slices: impl Iterator<Item = &'a Slice>,
    family: Family,
    port: &str,
    protocol: Protocol,
) -> BTreeMap<SocketAddr, &'a Endpoint> {
    let mut out: BTreeMap<SocketAddr, &Endpoint> = BTreeMap::new();
    for slice in slices.filter(|s| s.family == family) {
        let numbers =
            slice.ports.iter().filter(|(name, proto, _)| name.as_ref() == port && *proto == protocol);
        for (_, _, number) in numbers {
            for endpoint in &slice.endpoints {
                let address = SocketAddr::new(endpoint.ip, *number);
                let rank = |e: &Endpoint| (e.ready, e.serving, !e.terminating);
                match out.get(&address) {
                    Some(known) if rank(known) >= rank(endpoint) => {}
                    _ => drop(out.insert(address, endpoint)),
                }
            }
        }
    }
    out
}
