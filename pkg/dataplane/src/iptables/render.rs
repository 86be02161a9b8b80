//! Rules as `iptables-restore` reads them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use copepod_netcalc::{Backend, PortRules, Route};

use crate::names;
use crate::settings::{LocalDetect, Settings};

/// From this many endpoints on, chains of endpoints carry no comments (as upstream: half the size).
pub(crate) const MANY_ENDPOINTS: usize = 1000;

/// One port's part of the rule set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rendered {
    /// Lines for `nat`'s KUBE-SERVICES.
    pub(crate) services: String,
    /// Lines for `nat`'s KUBE-NODEPORTS.
    pub(crate) node_ports: String,
    /// Lines for `filter`.
    pub(crate) filter: String,
    /// The port's own chains in `nat`, with their lines.
    pub(crate) chains: BTreeMap<String, String>,
}

struct Names {
    service: String,
    local: String,
    external: String,
    firewall: String,
}

/// Renders one port. `comments` says whether endpoint chains carry comments.
pub(crate) fn render(rules: &PortRules, settings: &Settings, comments: bool) -> Rendered {
    let chain = |prefix| names::iptables_chain(prefix, &rules.name);
    let names = Names {
        service: chain("KUBE-SVC-"),
        local: chain("KUBE-SVL-"),
        external: chain("KUBE-EXT-"),
        firewall: chain("KUBE-FW-"),
    };
    let mut out = Rendered::default();
    cluster_ip(rules, &names, settings, &mut out);
    outside(rules, &names, &mut out);
    if rules.is_external() && !rules.is_empty() {
        out.chains
            .entry(names.external.clone())
            .or_default()
            .push_str(&external_chain(rules, &names, settings));
    }
    if uses_firewall(rules) {
        out.chains.insert(names.firewall.clone(), firewall_chain(rules, &names));
    }
    for (backends, name) in [(&rules.cluster, &names.service), (&rules.local, &names.local)] {
        if !backends.is_empty() {
            out.chains
                .entry(name.clone())
                .or_default()
                .push_str(&policy_chain(rules, backends, name, comments));
        }
    }
    for endpoint in rules.reachable() {
        let name = names::iptables_endpoint(&rules.name, endpoint.address);
        let lines = endpoint_chain(rules, endpoint.address, &name, comments);
        out.chains.insert(name, lines);
    }
    out
}

fn uses_firewall(rules: &PortRules) -> bool {
    !rules.is_empty() && !rules.load_balancer_ips.is_empty() && !rules.source_ranges.is_empty()
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes any text");
    out.push('\n');
}

/// `-m tcp -p tcp -d ADDRESS --dport PORT`
fn matches(rules: &PortRules, address: IpAddr) -> String {
    let protocol = rules.name.protocol.name();
    format!("-m {protocol} -p {protocol} -d {address} --dport {}", rules.port)
}

fn comment(text: &str) -> String {
    format!("-m comment --comment \"{text}\"")
}

fn refusal(route: Route) -> Option<(&'static str, &'static str)> {
    match route {
        Route::Reject => Some(("has no endpoints", "REJECT")),
        Route::Drop => Some(("has no local endpoints", "DROP")),
        Route::Cluster | Route::Local => None,
    }
}

fn cluster_ip(rules: &PortRules, names: &Names, settings: &Settings, out: &mut Rendered) {
    let name = &rules.name;
    let to = matches(rules, rules.cluster_ip);
    if let Some((why, target)) = refusal(rules.internal) {
        out.filter = format!("-A KUBE-SERVICES {} {to} -j {target}\n", comment(&format!("{name} {why}")));
        return;
    }
    let chain = if rules.internal == Route::Local { &names.local } else { &names.service };
    let what = comment(&format!("{name} cluster IP"));
    out.services = format!("-A KUBE-SERVICES {what} {to} -j {chain}\n");
    let from = match (&settings.local, settings.masquerade_all) {
        (_, true) => Some(String::new()),
        (LocalDetect::None, false) => None,
        (LocalDetect::ClusterCidr(net), false) => Some(format!("! -s {net} ")),
        (LocalDetect::InterfacePrefix(prefix), false) => Some(format!("! -i {prefix}+ ")),
    };
    if let Some(from) = from {
        let line = format!("-A {chain} {what} {to} {from}-j KUBE-MARK-MASQ\n");
        out.chains.entry(chain.clone()).or_default().push_str(&line);
    }
}

/// External, load balancer and node port addresses.
fn outside(rules: &PortRules, names: &Names, out: &mut Rendered) {
    let name = &rules.name;
    let load_balancer_chain = if uses_firewall(rules) { &names.firewall } else { &names.external };
    let external = rules.external_ips.iter().map(|ip| (ip, "external IP", &names.external));
    let balanced = rules.load_balancer_ips.iter().map(|ip| (ip, "loadbalancer IP", load_balancer_chain));
    let mut refused = String::new();
    for (ip, what, chain) in external.chain(balanced) {
        let to = matches(rules, *ip);
        if !rules.is_empty() {
            let what = comment(&format!("{name} {what}"));
            line(&mut out.services, format_args!("-A KUBE-SERVICES {what} {to} -j {chain}"));
        }
        if let Some((why, target)) = refusal(rules.external) {
            let why = comment(&format!("{name} {why}"));
            line(&mut refused, format_args!("-A KUBE-EXTERNAL-SERVICES {why} {to} -j {target}"));
        }
    }
    if uses_firewall(rules) {
        let why = comment(&format!("{name} traffic not accepted by {}", names.firewall));
        for ip in &rules.load_balancer_ips {
            line(&mut refused, format_args!("-A KUBE-PROXY-FIREWALL {why} {} -j DROP", matches(rules, *ip)));
        }
    }
    if rules.node_port != 0 {
        let protocol = name.protocol.name();
        let to = format!("-m {protocol} -p {protocol} --dport {}", rules.node_port);
        if !rules.is_empty() {
            let what = comment(&name.to_string());
            out.node_ports = format!("-A KUBE-NODEPORTS {what} {to} -j {}\n", names.external);
        }
        if let Some((why, target)) = refusal(rules.external) {
            let why = comment(&format!("{name} {why}"));
            let local = "-m addrtype --dst-type LOCAL";
            line(&mut refused, format_args!("-A KUBE-EXTERNAL-SERVICES {why} {local} {to} -j {target}"));
        }
    }
    if let Some((port, _)) = rules.health_check {
        let what = comment(&format!("{name} health check node port"));
        line(&mut refused, format_args!("-A KUBE-NODEPORTS {what} -m tcp -p tcp --dport {port} -j ACCEPT"));
    }
    out.filter.push_str(&refused);
}

fn external_chain(rules: &PortRules, names: &Names, settings: &Settings) -> String {
    let name = &rules.name;
    let chain = &names.external;
    let rule = |text: &str, rest: &str| {
        format!("-A {chain} {} {rest}\n", comment(&format!("{text} {name} external destinations")))
    };
    let mut out = String::new();
    if !rules.external_local {
        out.push_str(&rule("masquerade traffic for", "-j KUBE-MARK-MASQ"));
    } else if !rules.cluster.is_empty() {
        let pods = match &settings.local {
            LocalDetect::None => None,
            LocalDetect::ClusterCidr(net) => Some(format!("-s {net}")),
            LocalDetect::InterfacePrefix(prefix) => Some(format!("-i {prefix}+")),
        };
        if let Some(pods) = pods {
            out.push_str(&rule("pod traffic for", &format!("{pods} -j {}", names.service)));
        }
        let here = "-m addrtype --src-type LOCAL";
        out.push_str(&rule("masquerade LOCAL traffic for", &format!("{here} -j KUBE-MARK-MASQ")));
        out.push_str(&rule("route LOCAL traffic for", &format!("{here} -j {}", names.service)));
    }
    match rules.external {
        Route::Cluster => line(&mut out, format_args!("-A {chain} -j {}", names.service)),
        Route::Local => line(&mut out, format_args!("-A {chain} -j {}", names.local)),
        Route::Reject | Route::Drop => {}
    }
    out
}

fn firewall_chain(rules: &PortRules, names: &Names) -> String {
    let name = &rules.name;
    let what = comment(&format!("{name} loadbalancer IP"));
    let mut sources: Vec<String> = rules.source_ranges.iter().map(ToString::to_string).collect();
    if rules.sources_include_node {
        sources.extend(rules.load_balancer_ips.iter().map(ToString::to_string));
    }
    let mut out = String::new();
    for source in sources {
        line(&mut out, format_args!("-A {} {what} -s {source} -j {}", names.firewall, names.external));
    }
    let rest = comment(&format!("other traffic to {name} will be dropped by KUBE-PROXY-FIREWALL"));
    line(&mut out, format_args!("-A {} {rest}", names.firewall));
    out
}

fn maybe_comment(text: &str, comments: bool) -> String {
    if comments { format!("{} ", comment(text)) } else { String::new() }
}

/// The chain that picks an endpoint: each but the last with the probability 1/(n-i) of what reaches it.
fn policy_chain(rules: &PortRules, backends: &[Backend], chain: &str, comments: bool) -> String {
    let mut out = String::new();
    let target = |b: &Backend| names::iptables_endpoint(&rules.name, b.address);
    let what = |b: &Backend| maybe_comment(&format!("{} -> {}", rules.name, b.address), comments);
    if let Some(seconds) = rules.affinity {
        for backend in backends {
            let sep = target(backend);
            let recent = format!("-m recent --name {sep} --rcheck --seconds {seconds} --reap");
            line(&mut out, format_args!("-A {chain} {}{recent} -j {sep}", what(backend)));
        }
    }
    for (index, backend) in backends.iter().enumerate() {
        let left = backends.len() - index;
        let chance = if left > 1 {
            format!("-m statistic --mode random --probability {} ", probability(left))
        } else {
            String::new()
        };
        line(&mut out, format_args!("-A {chain} {}{chance}-j {}", what(backend), target(backend)));
    }
    out
}

/// 1/n to ten decimals.
fn probability(n: usize) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a chain has far fewer than 2^52 endpoints")]
    let value = 1.0 / n as f64;
    format!("{value:.10}")
}

fn endpoint_chain(rules: &PortRules, endpoint: SocketAddr, chain: &str, comments: bool) -> String {
    let what = maybe_comment(&rules.name.to_string(), comments);
    let protocol = rules.name.protocol.name();
    let recent = match rules.affinity {
        Some(_) => format!("-m recent --name {chain} --set "),
        None => String::new(),
    };
    format!(
        "-A {chain} {what}-s {} -j KUBE-MARK-MASQ\n\
         -A {chain} {what}{recent}-m {protocol} -p {protocol} -j DNAT --to-destination {endpoint}\n",
        endpoint.ip()
    )
}

/// `filter` and `nat` as one input, with the own chains of the ports in `chains` and the removal of `stale` ones.
pub(crate) fn assemble<'a>(
    ports: &[&'a Rendered],
    changed: impl Iterator<Item = (&'a String, &'a String)>,
    stale: &[String],
    settings: &Settings,
) -> String {
    let mut out = String::from("*filter\n");
    for chain in
        ["KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-FORWARD", "KUBE-NODEPORTS", "KUBE-PROXY-FIREWALL"]
    {
        line(&mut out, format_args!(":{chain} - [0:0]"));
    }
    let mark = format!("{0:#x}/{0:#x}", settings.masquerade_mark);
    if settings.localhost_node_ports {
        out.push_str(":KUBE-FIREWALL - [0:0]\n-A KUBE-FIREWALL -m comment --comment \"block incoming localnet connections\" -d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP\n");
    }
    ports.iter().for_each(|p| out.push_str(&p.filter));
    out.push_str("-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP\n");
    line(
        &mut out,
        format_args!(
            "-A KUBE-FORWARD {} -m mark --mark {mark} -j ACCEPT",
            comment("kubernetes forwarding rules")
        ),
    );
    let known = comment("kubernetes forwarding conntrack rule");
    line(
        &mut out,
        format_args!("-A KUBE-FORWARD {known} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"),
    );
    out.push_str("COMMIT\n*nat\n");
    for chain in ["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-MARK-MASQ"] {
        line(&mut out, format_args!(":{chain} - [0:0]"));
    }
    let mut bodies = String::new();
    for (chain, lines) in changed {
        line(&mut out, format_args!(":{chain} - [0:0]"));
        bodies.push_str(lines);
    }
    for chain in stale {
        line(&mut out, format_args!(":{chain} - [0:0]"));
    }
    line(&mut out, format_args!("-A KUBE-POSTROUTING -m mark ! --mark {mark} -j RETURN"));
    line(&mut out, format_args!("-A KUBE-POSTROUTING -j MARK --xor-mark {:#x}", settings.masquerade_mark));
    let snat = comment("kubernetes service traffic requiring SNAT");
    line(&mut out, format_args!("-A KUBE-POSTROUTING {snat} -j MASQUERADE --random-fully"));
    line(&mut out, format_args!("-A KUBE-MARK-MASQ -j MARK --or-mark {:#x}", settings.masquerade_mark));
    ports.iter().for_each(|p| out.push_str(&p.services));
    ports.iter().for_each(|p| out.push_str(&p.node_ports));
    out.push_str(&bodies);
    stale.iter().for_each(|chain| line(&mut out, format_args!("-X {chain}")));
    out.push_str(&node_port_jumps(settings));
    out.push_str("COMMIT\n");
    out
}

/// The last rules of KUBE-SERVICES.
fn node_port_jumps(settings: &Settings) -> String {
    let what = comment("kubernetes service nodeports; NOTE: this must be the last rule in this chain");
    let jump = |to: String| format!("-A KUBE-SERVICES {what} {to} -j KUBE-NODEPORTS\n");
    match &settings.node_port_ips {
        Some(ips) => ips.iter().map(|ip| jump(format!("-d {ip}"))).collect(),
        None if settings.localhost_node_ports => jump("-m addrtype --dst-type LOCAL".into()),
        None => jump("-m addrtype --dst-type LOCAL ! -d 127.0.0.0/8".into()),
    }
}

/// The whole input for `ports`, for golden files and for people.
#[must_use]
pub fn describe(ports: &[PortRules], settings: &Settings) -> String {
    let rendered: Vec<Rendered> = ports.iter().map(|p| render(p, settings, true)).collect();
    let all: Vec<&Rendered> = rendered.iter().collect();
    assemble(&all, rendered.iter().flat_map(|r| r.chains.iter()), &[], settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_endpoint_gets_an_equal_share() {
        assert_eq!([4, 3, 2].map(probability), ["0.2500000000", "0.3333333333", "0.5000000000"]);
    }
}
