//! Keeps the objects and recalculates the Services that a change concerns.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::endpoints::{Slice, gather};
use crate::input::{NodeFacts, ServicePortView, ServiceView, SliceView};
use crate::rules::{Family, PortName, PortRules, Protocol, ServiceName};
use crate::verdict::{Policies, choose};

/// Says that another proxy handles the Service.
const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";
/// Says that a slice belongs to a headless Service.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// Names the Service a slice belongs to.
const SERVICE_OF_SLICE: &str = "kubernetes.io/service-name";
/// How long a client stays with its endpoint when nothing is said.
const DEFAULT_AFFINITY_SECONDS: u32 = 10_800;

/// One Service's new rules; none when it is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The Service.
    pub service: ServiceName,
    /// Its ports, in the order of the object, families in the order of its addresses.
    pub ports: Vec<PortRules>,
}

/// The calculation's state. See the crate's documentation.
#[derive(Debug, Default)]
pub struct Calculator {
    node: NodeFacts,
    families: Vec<Family>,
    services: BTreeMap<ServiceName, Arc<ServiceView>>,
    slices: HashMap<ServiceName, BTreeMap<Box<str>, Slice>>,
    raw: HashMap<(Box<str>, Box<str>), ServiceName>,
    dirty: BTreeSet<ServiceName>,
}

impl Calculator {
    /// A calculation for `node`, in the families that are switched on.
    #[must_use]
    pub fn new(node: NodeFacts, families: &[Family]) -> Self {
        Self { node, families: families.to_vec(), ..Self::default() }
    }

    /// A Service appeared, changed or (`None`) went.
    pub fn on_service(&mut self, name: ServiceName, view: Option<ServiceView>) {
        let view = view.filter(is_ours);
        let changed = match view {
            Some(view) => {
                let same = self.services.get(&name).is_some_and(|known| **known == view);
                if !same {
                    self.services.insert(name.clone(), Arc::new(view));
                }
                !same
            }
            None => self.services.remove(&name).is_some(),
        };
        if changed {
            self.dirty.insert(name);
        }
    }

    /// A slice appeared, changed or (`None`) went.
    pub fn on_slice(&mut self, namespace: &str, name: &str, view: Option<&SliceView>) {
        let key = (Box::from(namespace), Box::from(name));
        let owner = view.and_then(|v| owner_of(namespace, v));
        let slice = view.filter(|_| owner.is_some()).and_then(|v| Slice::read(v, &self.node.name));
        let before = self.raw.get(&key).cloned();
        if let Some(old) = before.filter(|old| slice.is_none() || Some(old) != owner.as_ref()) {
            self.raw.remove(&key);
            if let Some(of_service) = self.slices.get_mut(&old) {
                of_service.remove(name);
                if of_service.is_empty() {
                    self.slices.remove(&old);
                }
            }
            self.dirty.insert(old);
        }
        if let (Some(owner), Some(slice)) = (owner, slice) {
            let of_service = self.slices.entry(owner.clone()).or_default();
            if of_service.get(name) != Some(&slice) {
                of_service.insert(name.into(), slice);
                self.dirty.insert(owner.clone());
            }
            self.raw.insert(key, owner);
        }
    }

    /// The node's facts changed. The node's name never does.
    pub fn on_node(&mut self, facts: NodeFacts) {
        if self.node != facts {
            self.node = facts;
            self.dirty.extend(self.services.keys().cloned());
        }
    }

    /// Whether something waits to be taken.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The Services that changed since the last call, recalculated.
    pub fn take_changes(&mut self) -> Vec<Change> {
        let dirty = std::mem::take(&mut self.dirty);
        dirty.into_iter().map(|service| Change { ports: self.ports_of(&service), service }).collect()
    }

    /// Every Service, calculated anew.
    #[must_use]
    pub fn all(&self) -> Vec<Change> {
        self.services
            .keys()
            .map(|name| Change { service: name.clone(), ports: self.ports_of(name) })
            .collect()
    }

    fn ports_of(&self, name: &ServiceName) -> Vec<PortRules> {
        let Some(service) = self.services.get(name) else { return Vec::new() };
        let mut out = Vec::new();
        for cluster_ip in cluster_ips(service) {
            if self.families.contains(&Family::of(cluster_ip)) {
                out.extend(
                    service.spec.ports.iter().filter_map(|p| self.port_rules(name, service, p, cluster_ip)),
                );
            }
        }
        out
    }

    fn port_rules(
        &self,
        service: &ServiceName,
        view: &ServiceView,
        port: &ServicePortView,
        cluster_ip: IpAddr,
    ) -> Option<PortRules> {
        let spec = &view.spec;
        let family = Family::of(cluster_ip);
        let protocol = Protocol::parse(&port.protocol)?;
        let external_ips = addresses(spec.external_ips.iter().map(String::as_str), family);
        let load_balancer_ips = load_balancer_ips(view, family);
        let node_port =
            if matches!(spec.kind.as_str(), "NodePort" | "LoadBalancer") { port.node_port } else { 0 };
        let external_local = spec.external_traffic_policy == "Local";
        let policies = Policies {
            internal_local: spec.internal_traffic_policy == "Local",
            external_local,
            external: node_port != 0 || !external_ips.is_empty() || !load_balancer_ips.is_empty(),
        };
        let endpoints = gather(
            self.slices.get(service).into_iter().flat_map(BTreeMap::values),
            family,
            &port.name,
            protocol,
        );
        let choice = choose(&endpoints, policies, &self.node);
        let source_ranges = source_ranges(&spec.load_balancer_source_ranges, family);
        let node_ips = self.node.addresses.iter();
        let sources_include_node =
            node_ips.into_iter().any(|ip| source_ranges.iter().any(|net| net.contains(ip)));
        let ready_here = endpoints.values().filter(|e| e.local && e.ready).count();
        let health_check = (external_local && spec.health_check_node_port != 0)
            .then_some((spec.health_check_node_port, ready_here));
        let serving = match protocol {
            Protocol::Udp => {
                endpoints.iter().filter(|(_, e)| e.serving).map(|(address, _)| *address).collect()
            }
            Protocol::Tcp | Protocol::Sctp => Vec::new(),
        };
        Some(PortRules {
            name: PortName { service: service.clone(), port: port.name.as_str().into(), protocol },
            family,
            cluster_ip,
            port: port.port,
            node_port,
            external_ips,
            load_balancer_ips,
            source_ranges,
            sources_include_node,
            affinity: affinity(view),
            internal: choice.internal,
            external: choice.external,
            external_local,
            cluster: choice.cluster,
            local: choice.local,
            serving,
            health_check,
        })
    }
}

/// Whether this proxy has anything to do for the Service.
fn is_ours(view: &ServiceView) -> bool {
    let labels = &view.metadata.labels;
    !labels.contains_key(OTHER_PROXY)
        && !labels.contains_key(HEADLESS)
        && view.spec.kind != "ExternalName"
        && !matches!(view.spec.cluster_ip.as_str(), "" | "None")
}

fn owner_of(namespace: &str, view: &SliceView) -> Option<ServiceName> {
    let labels = &view.metadata.labels;
    if labels.contains_key(OTHER_PROXY) || labels.contains_key(HEADLESS) {
        return None;
    }
    labels.get(SERVICE_OF_SLICE).filter(|name| !name.is_empty()).map(|name| ServiceName::new(namespace, name))
}

fn cluster_ips(view: &ServiceView) -> Vec<IpAddr> {
    let spec = &view.spec;
    if spec.cluster_ips.is_empty() {
        spec.cluster_ip.parse().into_iter().collect()
    } else {
        spec.cluster_ips.iter().filter_map(|ip| ip.parse().ok()).collect()
    }
}

fn addresses<'a>(list: impl Iterator<Item = &'a str>, family: Family) -> Vec<IpAddr> {
    let mut out: Vec<IpAddr> =
        list.filter_map(|ip| ip.trim().parse().ok()).filter(|ip| Family::of(*ip) == family).collect();
    out.sort_unstable();
    out.dedup();
    out
}

fn load_balancer_ips(view: &ServiceView, family: Family) -> Vec<IpAddr> {
    if view.spec.kind != "LoadBalancer" {
        return Vec::new();
    }
    let ingress = &view.status.load_balancer.ingress;
    let captured = ingress.iter().filter(|i| i.ip_mode.as_deref() != Some("Proxy"));
    addresses(captured.map(|i| i.ip.as_str()), family)
}

/// White space around a range is tolerated; a range that cannot be read is left out.
fn source_ranges(list: &[String], family: Family) -> Vec<IpNet> {
    list.iter()
        .filter_map(|range| range.trim().parse::<IpNet>().ok())
        .filter(|net| Family::of(net.addr()) == family)
        .map(|net| net.trunc())
        .collect()
}

fn affinity(view: &ServiceView) -> Option<u32> {
    let seconds =
        view.spec.session_affinity_config.as_ref().and_then(|c| c.client_ip.as_ref()?.timeout_seconds);
    (view.spec.session_affinity == "ClientIP").then_some(seconds.unwrap_or(DEFAULT_AFFINITY_SECONDS))
}

#[cfg(test)]
mod tests;
