//! Network policies.

use serde_json::{Value, json};

use crate::kinds::at::At;
use crate::kinds::checks::warn;
use crate::kinds::checks::{ip, labels, text};
use crate::kinds::defaults::{
    Lit::S,
    Object,
    Rule::{Each, In, Nil, Run},
    is_zero,
};
use crate::kinds::kind::Kind;

/// Network policies.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(
        &["spec"],
        &[Run(policy_types), Each(&["ingress", "egress"], &[Each(&["ports"], &[Nil("protocol", S("TCP"))])])],
    )],
    generation: true,
    validate: |policy| validate(&policy.get("spec")),
    warnings: |new, _| {
        warn::about(new, copepod_api::FieldPath::root(), |policy, warnings| {
            for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
                let rules = policy.get("spec").get(rules);
                for block in rules.items().flat_map(|r| r.get(peers).items()).map(|p| p.get("ipBlock")) {
                    warn::network(&block.get("cidr"), warnings);
                    block.get("except").items().for_each(|at| warn::network(&at, warnings));
                }
            }
        })
    },
    ..Kind::PLAIN
};

fn policy_types(spec: &mut Object) {
    if !spec.get("policyTypes").is_none_or(is_zero) {
        return;
    }
    let egress = spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
    let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    spec.insert("policyTypes".to_owned(), types);
}

fn validate(spec: &At<'_>) {
    labels::selector(&spec.get("podSelector"));
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.get(rules).items() {
            rule.get("ports").items().for_each(|at| port(&at));
            rule.get(peers).items().for_each(|at| peer(&at));
        }
    }
    let types = spec.get("policyTypes");
    if types.array().len() > 2 {
        types.invalid("may not specify more than two policyTypes");
    }
    types.items().for_each(|at| at.one_of(&["Ingress", "Egress"]));
}

fn port(at: &At<'_>) {
    at.get("protocol").one_of(&["TCP", "UDP", "SCTP"]);
    let (port, end) = (at.get("port"), at.get("endPort"));
    match (port.value(), end.int()) {
        (Some(Value::Number(_)), end_at) => {
            text::port(&port);
            if end_at.is_some_and(|n| n < port.int().unwrap_or(0)) {
                end.invalid("must be greater than or equal to `port`");
            }
            if end_at.is_some() {
                text::port(&end);
            }
        }
        (Some(_), end_at) => {
            if end_at.is_some() {
                end.invalid("may not be specified when `port` is non-numeric");
            }
            text::port_or_name(&port);
        }
        (None, Some(_)) => end.invalid("may not be specified when `port` is not specified"),
        (None, None) => {}
    }
}

fn peer(at: &At<'_>) {
    let selectors = ["podSelector", "namespaceSelector"].map(|field| at.get(field));
    selectors.iter().for_each(labels::selector);
    let block = at.get("ipBlock");
    if block.present() {
        ip_block(&block);
    }
    match (selectors.iter().filter(|s| s.present()).count(), block.present()) {
        (0, false) => at.required("must specify a peer"),
        (1.., true) => at.forbidden("may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn ip_block(at: &At<'_>) {
    let range = at.get("cidr");
    if !range.need() {
        return;
    }
    ip::cidr(&range, &[]);
    let Ok(whole) = range.str().parse::<ipnet::IpNet>() else { return };
    for except in at.get("except").items() {
        ip::cidr(&except, &[]);
        if let Ok(net) = except.str().parse::<ipnet::IpNet>()
            && (!whole.contains(&net.addr()) || whole.prefix_len() >= net.prefix_len())
        {
            except.invalid("must be a strict subset of `cidr`");
        }
    }
}
