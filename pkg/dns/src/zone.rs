//! The cluster's zone: from a name and a type to records. Pure; it never waits.

mod names;

use std::net::IpAddr;

use hickory_proto::rr::rdata::{A, AAAA, CNAME, NS, PTR, SOA, SRV, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use crate::catalog::{Catalog, ServicePort, ServiceView, owner};
use names::{pod_address, reverse_address};

/// The version of the specification, answered under `dns-version`.
const SPECIFICATION: &str = "1.1.0";
/// Times in the zone's SOA, as CoreDNS has them: refresh, retry, expire.
const TIMES: (i32, i32, i32) = (7200, 1800, 86_400);

/// What the zone knows about a name.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "made and used up within one question")]
pub enum Found {
    /// Records for the type asked for, and addresses of names in them.
    Records {
        /// The answer.
        answers: Vec<Record>,
        /// What the client would ask next.
        additionals: Vec<Record>,
    },
    /// The name is another one, outside the zone: resolve that too.
    Alias {
        /// The CNAME record.
        record: Record,
        /// What it points to.
        target: Name,
    },
    /// The name exists, but not with this type.
    NoData,
    /// The name does not exist.
    NoName,
    /// The name is not ours.
    Elsewhere,
}

/// The zone's fixed facts.
#[derive(Debug, Clone)]
pub struct Zone {
    origin: Name,
    labels: Vec<String>,
    ttl: u32,
}

impl Zone {
    /// The zone `domain`; answers live `ttl` seconds.
    ///
    /// # Errors
    /// When `domain` is no domain name.
    pub fn new(domain: &str, ttl: u32) -> Result<Self, hickory_proto::ProtoError> {
        let mut origin = Name::from_ascii(domain)?.to_lowercase();
        origin.set_fqdn(true);
        let labels = labels_of(&origin);
        Ok(Self { origin, labels, ttl })
    }

    /// The zone's name.
    #[must_use]
    pub fn origin(&self) -> &Name {
        &self.origin
    }

    /// The record that says how long a "no" may be kept.
    #[must_use]
    pub fn soa(&self) -> Record {
        let serial = u32::try_from(copepod_sys::clock::now().as_second()).unwrap_or(u32::MAX);
        let (refresh, retry, expire) = TIMES;
        let soa = SOA::new(
            self.below(&["ns", "dns"]),
            self.below(&["hostmaster"]),
            serial,
            refresh,
            retry,
            expire,
            self.ttl,
        );
        self.record(self.origin.clone(), RData::SOA(soa))
    }

    fn record(&self, name: Name, data: RData) -> Record {
        Record::from_rdata(name, self.ttl, data)
    }

    /// A name below the origin. Labels come from API objects, which hold DNS labels; anything else falls back to the
    /// origin, which answers nothing wrong.
    fn below(&self, labels: &[&str]) -> Name {
        let all = labels.iter().copied().chain(self.labels.iter().map(String::as_str)).map(str::as_bytes);
        Name::from_labels(all).unwrap_or_else(|_| self.origin.clone())
    }

    fn service_name(&self, service: &ServiceView) -> Name {
        self.below(&[&service.metadata.name, &service.metadata.namespace, "svc"])
    }

    /// Looks `name` up.
    pub fn find(&self, catalog: &impl Catalog, name: &Name, kind: RecordType) -> Found {
        let labels = labels_of(&name.to_lowercase());
        let Some(inside) = labels.strip_suffix(self.labels.as_slice()) else {
            return self.find_reverse(catalog, name, kind);
        };
        let inside: Vec<&str> = inside.iter().map(String::as_str).collect();
        let records = match inside.as_slice() {
            [] => return self.find_apex(catalog, name, kind),
            ["dns-version"] => vec![RData::TXT(TXT::new(vec![SPECIFICATION.to_owned()]))],
            ["ns", "dns"] => server_addresses(catalog).into_iter().map(address_data).collect(),
            ["dns" | "svc" | "pod"] => Vec::new(),
            [namespace, "svc" | "pod"] if catalog.has_namespace(namespace) => Vec::new(),
            [ip, _, "pod"] => match pod_address(ip) {
                Some(ip) => vec![address_data(ip)],
                None => return Found::NoName,
            },
            [service, namespace, "svc"] => return self.find_service(catalog, name, namespace, service, kind),
            [host, service, namespace, "svc"] => {
                return self.find_endpoint(catalog, name, (namespace, service), host, kind);
            }
            [port, protocol, service, namespace, "svc"] => {
                let (Some(port), Some(protocol)) = (port.strip_prefix('_'), protocol.strip_prefix('_'))
                else {
                    return Found::NoName;
                };
                let wanted = move |p: &ServicePort| p.matches(port, protocol);
                return self.find_srv(catalog, name, (namespace, service), kind, &wanted);
            }
            _ => return Found::NoName,
        };
        self.of_type(name, records, kind)
    }

    fn find_apex(&self, catalog: &impl Catalog, name: &Name, kind: RecordType) -> Found {
        let ns = self.below(&["ns", "dns"]);
        match kind {
            RecordType::SOA => Found::Records { answers: vec![self.soa()], additionals: vec![] },
            RecordType::NS => Found::Records {
                additionals: server_addresses(catalog)
                    .into_iter()
                    .map(|ip| self.record(ns.clone(), address_data(ip)))
                    .collect(),
                answers: vec![self.record(name.clone(), RData::NS(NS(ns)))],
            },
            _ => Found::NoData,
        }
    }

    /// The records of the wanted type among all that a name has.
    fn of_type(&self, name: &Name, all: Vec<RData>, kind: RecordType) -> Found {
        let wanted = |data: &RData| kind == RecordType::ANY || data.record_type() == kind;
        let answers: Vec<Record> =
            all.into_iter().filter(wanted).map(|data| self.record(name.clone(), data)).collect();
        if answers.is_empty() { Found::NoData } else { Found::Records { answers, additionals: vec![] } }
    }

    fn find_service(
        &self,
        catalog: &impl Catalog,
        name: &Name,
        namespace: &str,
        service: &str,
        kind: RecordType,
    ) -> Found {
        let Some(view) = catalog.service(namespace, service) else { return Found::NoName };
        if view.spec.kind == "ExternalName" {
            return self.alias(name, &view.spec.external_name);
        }
        if kind == RecordType::SRV {
            return self.find_srv(catalog, name, (namespace, service), kind, &|_| true);
        }
        let addresses = if view.is_headless() {
            let ready = endpoints(catalog, namespace, service);
            if ready.is_empty() {
                return Found::NoName;
            }
            ready.into_iter().map(|(_, ip, _)| ip).collect()
        } else {
            view.addresses()
        };
        let mut data: Vec<RData> = addresses.into_iter().map(address_data).collect();
        dedup(&mut data);
        self.of_type(name, data, kind)
    }

    fn alias(&self, name: &Name, target: &str) -> Found {
        let Ok(mut target) = Name::from_utf8(target) else { return Found::NoName };
        target.set_fqdn(true);
        Found::Alias { record: self.record(name.clone(), RData::CNAME(CNAME(target.clone()))), target }
    }

    fn find_endpoint(
        &self,
        catalog: &impl Catalog,
        name: &Name,
        (namespace, service): (&str, &str),
        host: &str,
        kind: RecordType,
    ) -> Found {
        if catalog.service(namespace, service).is_none() {
            return Found::NoName;
        }
        let ready = endpoints(catalog, namespace, service);
        let mut data: Vec<RData> =
            ready.into_iter().filter(|(n, ..)| n == host).map(|(_, ip, _)| address_data(ip)).collect();
        dedup(&mut data);
        if data.is_empty() { Found::NoName } else { self.of_type(name, data, kind) }
    }

    fn find_srv(
        &self,
        catalog: &impl Catalog,
        name: &Name,
        (namespace, service): (&str, &str),
        kind: RecordType,
        wanted: &dyn Fn(&ServicePort) -> bool,
    ) -> Found {
        let Some(view) = catalog.service(namespace, service) else { return Found::NoName };
        let targets: Vec<(Name, u16, Vec<IpAddr>)> = if view.is_headless() {
            endpoints(catalog, namespace, service)
                .into_iter()
                .flat_map(|(host, ip, ports)| {
                    let target = self.below(&[&host, service, namespace, "svc"]);
                    let ports: Vec<u16> = ports.iter().filter(|p| wanted(p)).filter_map(|p| p.port).collect();
                    ports.into_iter().map(move |port| (target.clone(), port, vec![ip]))
                })
                .collect()
        } else {
            let target = self.service_name(&view);
            let ports = view.spec.ports.iter().filter(|p| wanted(p)).filter_map(|p| p.port);
            ports.map(|port| (target.clone(), port, view.addresses())).collect()
        };
        if targets.is_empty() {
            return Found::NoName;
        }
        if !matches!(kind, RecordType::SRV | RecordType::ANY) {
            return Found::NoData;
        }
        self.srv_records(name, &targets)
    }

    fn srv_records(&self, name: &Name, targets: &[(Name, u16, Vec<IpAddr>)]) -> Found {
        let weight = u16::try_from(100 / targets.len().max(1)).unwrap_or(1).max(1);
        let mut answers = Vec::new();
        let mut additionals: Vec<Record> = Vec::new();
        for (target, port, addresses) in targets {
            let srv = RData::SRV(SRV::new(0, weight, *port, target.clone()));
            answers.push(self.record(name.clone(), srv));
            for ip in addresses {
                let record = self.record(target.clone(), address_data(*ip));
                if !additionals.contains(&record) {
                    additionals.push(record);
                }
            }
        }
        Found::Records { answers, additionals }
    }

    /// Names of the cluster's addresses; other addresses are not ours.
    fn find_reverse(&self, catalog: &impl Catalog, name: &Name, kind: RecordType) -> Found {
        let Some(ip) = reverse_address(name) else { return Found::Elsewhere };
        let mut targets = Vec::new();
        if let Some(service) = catalog.service_at(ip) {
            targets.push(self.service_name(&service));
        } else {
            for slice in catalog.slices_at(ip) {
                let namespace = &slice.metadata.namespace;
                let Some(service) = owner(&slice) else { continue };
                if catalog.service(namespace, service).is_some_and(|s| s.is_headless()) {
                    let hosts = slice.endpoints.iter().filter(|e| e.ready_address() == Some(ip));
                    targets.extend(hosts.map(|e| self.below(&[&e.name(), service, namespace, "svc"])));
                }
            }
        }
        if targets.is_empty() {
            return Found::Elsewhere;
        }
        self.of_type(name, targets.into_iter().map(|t| RData::PTR(PTR(t))).collect(), kind)
    }
}

/// Where this server is reached: the Service that kubeadm and everybody since have called so.
fn server_addresses(catalog: &impl Catalog) -> Vec<IpAddr> {
    catalog.service("kube-system", "kube-dns").map(|s| s.addresses()).unwrap_or_default()
}

fn labels_of(name: &Name) -> Vec<String> {
    name.iter().map(|label| String::from_utf8_lossy(label).into_owned()).collect()
}

fn address_data(ip: IpAddr) -> RData {
    match ip {
        IpAddr::V4(ip) => RData::A(A(ip)),
        IpAddr::V6(ip) => RData::AAAA(AAAA(ip)),
    }
}

/// A pod in two slices (one per family or port set) is one address.
fn dedup(data: &mut Vec<RData>) {
    let mut seen = Vec::new();
    data.retain(|d| {
        let new = !seen.contains(d);
        if new {
            seen.push(d.clone());
        }
        new
    });
}

type ReadyEndpoint = (String, IpAddr, Vec<ServicePort>);

/// The ready endpoints of a Service: name, address and ports.
fn endpoints(catalog: &impl Catalog, namespace: &str, service: &str) -> Vec<ReadyEndpoint> {
    let mut out = Vec::new();
    for slice in catalog.slices(namespace, service) {
        for endpoint in &slice.endpoints {
            if let Some(ip) = endpoint.ready_address() {
                out.push((endpoint.name(), ip, slice.ports.clone()));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
