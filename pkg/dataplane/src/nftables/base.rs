//! The fixed part of the table: base chains, their jumps, and the rules that look Services up.

use nlink::netlink::nftables::{BaseChain, FilterHook, NatHook, Priority};

use super::model::{Rule, SetId};
use crate::settings::{LocalDetect, Settings};

/// Before destination NAT, so that the address a client asked for is still visible.
const PRE_DNAT: i32 = -110;

/// The hooked chains.
pub(crate) fn base_chains() -> Vec<(&'static str, BaseChain)> {
    let filter = |hook, priority| BaseChain::filter(hook, Priority::Custom(priority));
    let nat = |hook, priority| BaseChain::nat(hook, Priority::Custom(priority));
    vec![
        ("filter-prerouting-pre-dnat", filter(FilterHook::Prerouting, PRE_DNAT)),
        ("filter-output-pre-dnat", filter(FilterHook::Output, PRE_DNAT)),
        ("filter-input", filter(FilterHook::Input, 0)),
        ("filter-forward", filter(FilterHook::Forward, 0)),
        ("filter-output", filter(FilterHook::Output, 0)),
        ("nat-prerouting", nat(NatHook::Prerouting, -100)),
        ("nat-output", nat(NatHook::Output, -100)),
        ("nat-postrouting", nat(NatHook::Postrouting, 100)),
    ]
}

/// The chains without a hook that always exist.
pub(crate) const PLAIN_CHAINS: [&str; 7] = [
    "reject-chain",
    "services",
    "masquerading",
    "firewall-check",
    "service-endpoints-check",
    "nodeport-endpoints-check",
    "cluster-ips-check",
];

/// Which chain leads to which; checks look at new connections only.
const JUMPS: [(&str, &str, bool); 11] = [
    ("filter-input", "nodeport-endpoints-check", true),
    ("filter-input", "service-endpoints-check", true),
    ("filter-forward", "service-endpoints-check", true),
    ("filter-output", "service-endpoints-check", true),
    ("filter-prerouting-pre-dnat", "firewall-check", true),
    ("filter-output-pre-dnat", "firewall-check", true),
    ("nat-output", "services", false),
    ("nat-prerouting", "services", false),
    ("nat-postrouting", "masquerading", false),
    ("filter-forward", "cluster-ips-check", true),
    ("filter-output", "cluster-ips-check", true),
];

/// The fixed rules, chain by chain, in order.
pub(crate) fn base_rules(settings: &Settings) -> Vec<(&'static str, Rule)> {
    let mark = settings.masquerade_mark;
    let limited = settings.node_port_ips.is_some();
    let mut rules: Vec<_> = JUMPS
        .iter()
        .map(|(from, to, only_new)| {
            (*from, if *only_new { Rule::JumpIfNew((*to).into()) } else { Rule::Jump((*to).into()) })
        })
        .collect();
    rules.extend([
        ("reject-chain", Rule::Reject),
        ("masquerading", Rule::MasqueradeMarked(mark)),
        ("masquerading", Rule::MasqueradeHairpin),
        ("cluster-ips-check", Rule::RejectClusterIps),
    ]);
    rules.extend(settings.service_ranges.iter().map(|range| ("cluster-ips-check", Rule::DropTo(*range))));
    rules.extend([
        ("service-endpoints-check", Rule::ByAddress(SetId::NoEndpointServices)),
        ("nodeport-endpoints-check", Rule::ByNodePortInput(SetId::NoEndpointNodePorts, limited)),
        ("firewall-check", Rule::ByAddress(SetId::FirewallIps)),
    ]);
    if settings.masquerade_all {
        rules.push(("services", Rule::MarkClusterIps(mark, None)));
    } else if settings.local != LocalDetect::None {
        rules.push(("services", Rule::MarkClusterIps(mark, Some(settings.local.clone()))));
    }
    rules.push(("services", Rule::ByAddress(SetId::ServiceIps)));
    rules.push(("services", Rule::ByNodePort(SetId::ServiceNodePorts, limited)));
    rules
}
