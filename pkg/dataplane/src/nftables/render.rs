//! One port's rules as elements and chains.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

use copepod_netcalc::{Backend, PortRules, Route};
use ipnet::{IpNet, Ipv4Net};

use super::base::base_rules;
use super::ledger::Place;
use super::model::{Key, Rule, SetId, Value};
use super::slots::{Run, Slots};
use crate::names;
use crate::settings::{LocalDetect, Settings};

/// Runs of numbers of a port's two policy chains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) cluster: Option<Run>,
    pub(crate) local: Option<Run>,
}

/// What one port needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) elements: BTreeMap<Place, Value>,
    pub(crate) chains: BTreeMap<String, Vec<Rule>>,
    /// Affinity sets and their timeout in seconds.
    pub(crate) sets: BTreeMap<String, u32>,
}

struct Names {
    service: String,
    local: String,
    external: String,
    firewall: String,
}

fn v4(ip: IpAddr) -> Option<Ipv4Addr> {
    match ip {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    }
}

/// IPv4 endpoint addresses.
pub(crate) fn targets(backends: &[Backend]) -> Vec<SocketAddrV4> {
    backends
        .iter()
        .filter_map(|b| match b.address {
            SocketAddr::V4(address) => Some(address),
            SocketAddr::V6(_) => None,
        })
        .collect()
}

/// Renders `rules`; `runs` are the numbers of its endpoints.
pub(crate) fn render(rules: &PortRules, runs: &Runs, settings: &Settings) -> Rendered {
    let base = names::nftables_base(&rules.name);
    let names = Names {
        service: format!("service-{base}"),
        local: format!("local-{base}"),
        external: format!("external-{base}"),
        firewall: format!("firewall-{base}"),
    };
    let mut out = Rendered::default();
    entries(rules, &names, &mut out);
    if rules.is_external() && !rules.is_empty() {
        out.chains.insert(names.external.clone(), external_chain(rules, &names, settings));
    }
    if uses_firewall(rules) {
        out.chains.insert(names.firewall.clone(), firewall_chain(rules));
    }
    policy_chain(rules, &rules.cluster, &names.service, runs.cluster.as_ref(), &mut out);
    policy_chain(rules, &rules.local, &names.local, runs.local.as_ref(), &mut out);
    for endpoint in rules.reachable() {
        if let (true, SocketAddr::V4(address)) = (endpoint.local, endpoint.address) {
            let key = Key::Hairpin(*address.ip(), rules.name.protocol.number(), address.port());
            out.elements.insert((SetId::HairpinConnections, key), Value::Member);
        }
        if let Some(seconds) = rules.affinity {
            endpoint_chain(rules, endpoint.address, seconds, &mut out);
        }
    }
    out
}

fn uses_firewall(rules: &PortRules) -> bool {
    !rules.load_balancer_ips.is_empty() && !rules.source_ranges.is_empty()
}

/// The verdict for packets that were not sent to any endpoint; `None` where some endpoint takes them.
fn refusal(route: Route) -> Option<Value> {
    match route {
        Route::Reject => Some(Value::Goto("reject-chain".into())),
        Route::Drop => Some(Value::Drop),
        Route::Cluster | Route::Local => None,
    }
}

/// The elements that lead to the port's chains, or refuse.
fn entries(rules: &PortRules, names: &Names, out: &mut Rendered) {
    let protocol = rules.name.protocol.number();
    let mut put = |set, key, value| drop(out.elements.insert((set, key), value));
    if let Some(ip) = v4(rules.cluster_ip) {
        let key = Key::AddressPort(ip, protocol, rules.port);
        put(SetId::ClusterIps, Key::Address(ip), Value::Member);
        match (refusal(rules.internal), rules.internal) {
            (Some(refusal), _) => put(SetId::NoEndpointServices, key, refusal),
            (None, Route::Local) => put(SetId::ServiceIps, key, Value::Goto(names.local.clone())),
            (None, _) => put(SetId::ServiceIps, key, Value::Goto(names.service.clone())),
        }
    }
    let to_external = || Value::Goto(names.external.clone());
    let outside = rules.external_ips.iter().chain(&rules.load_balancer_ips);
    for ip in outside.filter_map(|ip| v4(*ip)) {
        let key = Key::AddressPort(ip, protocol, rules.port);
        if !rules.is_empty() {
            put(SetId::ServiceIps, key, to_external());
        }
        if let Some(refusal) = refusal(rules.external) {
            put(SetId::NoEndpointServices, key, refusal);
        }
    }
    if uses_firewall(rules) {
        for ip in rules.load_balancer_ips.iter().filter_map(|ip| v4(*ip)) {
            let key = Key::AddressPort(ip, protocol, rules.port);
            put(SetId::FirewallIps, key, Value::Goto(names.firewall.clone()));
        }
    }
    if rules.node_port != 0 {
        let key = Key::Port(protocol, rules.node_port);
        if !rules.is_empty() {
            put(SetId::ServiceNodePorts, key, to_external());
        }
        if let Some(refusal) = refusal(rules.external) {
            put(SetId::NoEndpointNodePorts, key, refusal);
        }
    }
}

fn external_chain(rules: &PortRules, names: &Names, settings: &Settings) -> Vec<Rule> {
    let mark = settings.masquerade_mark;
    if !rules.external_local {
        return vec![Rule::Mark(mark), Rule::Goto(names.service.clone())];
    }
    let mut chain = Vec::new();
    if !rules.cluster.is_empty() {
        if settings.local != LocalDetect::None {
            chain.push(Rule::GotoIfPod(settings.local.clone(), names.service.clone()));
        }
        chain.push(Rule::MarkIfSourceLocal(mark));
        chain.push(Rule::GotoIfSourceLocal(names.service.clone()));
    }
    if rules.external == Route::Local {
        chain.push(Rule::Goto(names.local.clone()));
    }
    chain
}

fn firewall_chain(rules: &PortRules) -> Vec<Rule> {
    let mut chain: Vec<Rule> = rules
        .source_ranges
        .iter()
        .filter_map(|net| match net {
            IpNet::V4(net) => Some(Rule::ReturnFrom(*net)),
            IpNet::V6(_) => None,
        })
        .collect();
    if rules.sources_include_node {
        let addresses = rules.load_balancer_ips.iter().filter_map(|ip| v4(*ip));
        chain.extend(addresses.map(|ip| Rule::ReturnFrom(Ipv4Net::from(ip))));
    }
    chain.push(Rule::Drop);
    chain
}

/// The chain that picks an endpoint.
fn policy_chain(rules: &PortRules, backends: &[Backend], name: &str, run: Option<&Run>, out: &mut Rendered) {
    let list = targets(backends);
    let Some(only) = list.first() else { return };
    let protocol = rules.name.protocol.number();
    let mut chain = Vec::new();
    if rules.affinity.is_some() {
        for endpoint in &list {
            let id = names::nftables_endpoint(&rules.name, SocketAddr::V4(*endpoint));
            chain.push(Rule::GotoIfIn { set: format!("affinity-{id}"), chain: format!("endpoint-{id}") });
        }
    }
    let endpoint_chain =
        |e: SocketAddrV4| format!("endpoint-{}", names::nftables_endpoint(&rules.name, SocketAddr::V4(e)));
    match (run, rules.affinity) {
        (None, None) => chain.push(Rule::Dnat(protocol, *only)),
        (None, Some(_)) => chain.push(Rule::Goto(endpoint_chain(*only))),
        (Some(run), affinity) => {
            let count = u32::try_from(run.order.len()).unwrap_or(u32::MAX);
            let first = run.first;
            for (index, endpoint) in (first..).zip(&run.order) {
                let (set, value) = match affinity {
                    None => (SetId::ServiceEndpoints, Value::Endpoint(*endpoint)),
                    Some(_) => (SetId::AffinityEndpoints, Value::Goto(endpoint_chain(*endpoint))),
                };
                out.elements.insert((set, Key::Index(index)), value);
            }
            chain.push(match affinity {
                None => Rule::DnatRandom { protocol, count, first },
                Some(_) => Rule::GotoRandom { count, first },
            });
        }
    }
    out.chains.insert(name.to_owned(), chain);
}

/// The chain and set that make a client return to an endpoint.
fn endpoint_chain(rules: &PortRules, address: SocketAddr, seconds: u32, out: &mut Rendered) {
    let SocketAddr::V4(target) = address else { return };
    let id = names::nftables_endpoint(&rules.name, address);
    let set = format!("affinity-{id}");
    let chain = vec![Rule::Remember { set: set.clone() }, Rule::Dnat(rules.name.protocol.number(), target)];
    out.sets.insert(set, seconds);
    out.chains.insert(format!("endpoint-{id}"), chain);
}

/// The whole table as text, for golden files and for people. Its syntax is nft's, its order is ours.
#[must_use]
pub fn describe(ports: &[PortRules], settings: &Settings) -> String {
    let mut out = String::new();
    let mut slots = Slots::default();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line("# fixed".into());
    for (chain, rule) in base_rules(settings) {
        line(format!("{chain}: {rule}"));
    }
    for port in ports {
        let runs = Runs {
            cluster: slots.place(None, &targets(&port.cluster)),
            local: slots.place(None, &targets(&port.local)),
        };
        let rendered = render(port, &runs, settings);
        line(format!("# {} {}", port.name, port.name.protocol.name()));
        for (set, seconds) in &rendered.sets {
            line(format!("set {set} timeout {seconds}s"));
        }
        for (chain, rules) in &rendered.chains {
            for rule in rules {
                line(format!("{chain}: {rule}"));
            }
        }
        for ((set, key), value) in &rendered.elements {
            line(format!("@{} {key}{value}", set.name()));
        }
    }
    out
}
