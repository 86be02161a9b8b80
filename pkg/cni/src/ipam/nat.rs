//! The pod network's kernel table, `ip copepod-cni`: masquerade, host ports, and the guard of the loopback range.
//!
//! Rules are fixed once the pod range is known; host ports are map elements, so one more costs two elements.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use copepod_dataplane::nft::{
    NftError, Session, bytes_of, chunked_elements, ct_status_dnat, dnat_regs, fib_daddr_local,
    iifname_prefix, in_set, load_daddr, load_dport, load_l4proto, load_saddr, map_lookup, masquerade_random,
    net_match, net_mismatch, oifname_prefix,
};
use ipnet::{IpNet, Ipv4Net};
use nlink::netlink::nftables::{
    BaseChain, Chain, Expr, Family, FilterHook, NatHook, Priority, Rule, Set, SetDataType, SetElement,
    SetKeyType, Transaction, Verdict,
};

use super::book::Record;

/// The table's name.
pub(crate) const TABLE: &str = "copepod-cni";
/// Ports bound to one address of the node.
const PORTS: &str = "hostports";
/// Ports on every address of the node.
const PORTS_ANY: &str = "hostports-any";
/// Pods that reach themselves by their own host port.
const HAIRPIN: &str = "hairpin";
/// Just after the Services (-100), which win over a host port as they do upstream.
const DNAT_PRIORITY: i32 = -95;
const POD_LINKS: &str = "cali";

/// Map contents, by set name and key.
pub(crate) type Elements = BTreeMap<(&'static str, Vec<u8>), Vec<u8>>;

/// What the host ports of `records` need in the maps. The newest attachment wins a port.
pub(crate) fn render_ports<'a>(records: impl Iterator<Item = &'a Record>) -> Elements {
    let mut sorted: Vec<&Record> = records.filter(|r| !r.ports.is_empty()).collect();
    sorted.sort_by_key(|r| r.sequence);
    let mut out = Elements::new();
    for record in sorted {
        let pod = record.addresses.iter().find_map(|ip| match ip {
            IpAddr::V4(v4) => Some(*v4),
            IpAddr::V6(_) => None,
        });
        let Some(pod) = pod else { continue };
        out.insert((HAIRPIN, bytes_of(&[&pod.octets(), &pod.octets()])), Vec::new());
        for port in &record.ports {
            let protocol = [protocol_number(&port.protocol)];
            let number = port.host_port.to_be_bytes();
            let target = bytes_of(&[&pod.octets(), &port.container_port.to_be_bytes()]);
            match port.host_ip {
                None => drop(out.insert((PORTS_ANY, bytes_of(&[&protocol, &number])), target)),
                Some(IpAddr::V4(host)) => {
                    drop(out.insert((PORTS, bytes_of(&[&host.octets(), &protocol, &number])), target));
                }
                Some(IpAddr::V6(_)) => {}
            }
        }
    }
    out
}

fn protocol_number(name: &str) -> u8 {
    match name.to_ascii_lowercase().as_str() {
        "udp" => 17,
        "sctp" => 132,
        _ => 6,
    }
}

fn set(name: &'static str) -> Set {
    let key = match name {
        PORTS => vec![SetKeyType::Ipv4Addr, SetKeyType::InetProto, SetKeyType::InetService],
        PORTS_ANY => vec![SetKeyType::InetProto, SetKeyType::InetService],
        _ => vec![SetKeyType::Ipv4Addr, SetKeyType::Ipv4Addr],
    };
    let set = Set::new(TABLE, name).family(Family::Ip).key_type(SetKeyType::Concat(key));
    if name == HAIRPIN {
        return set;
    }
    set.map(SetDataType::Value(SetKeyType::Concat(vec![SetKeyType::Ipv4Addr, SetKeyType::InetService])))
}

fn element(key: &[u8], value: &[u8]) -> SetElement {
    let element = SetElement::new(key.to_vec());
    if value.is_empty() { element } else { element.value(SetElement::new(value.to_vec())) }
}

/// The kernel table and what we believe it holds.
#[derive(Debug)]
pub(crate) struct Nat {
    session: Session,
    ranges: Vec<Ipv4Net>,
    applied: Elements,
}

impl Nat {
    pub(crate) fn open(ranges: &[IpNet]) -> Result<Self, NftError> {
        let ranges = ranges
            .iter()
            .filter_map(|net| match net {
                IpNet::V4(v4) => Some(*v4),
                IpNet::V6(_) => None,
            })
            .collect();
        Ok(Self { session: Session::open(TABLE)?, ranges, applied: Elements::new() })
    }

    pub(crate) fn port(&self) -> u32 {
        self.session.port()
    }

    /// Replaces the whole table, in one transaction.
    pub(crate) async fn rebuild(&mut self, wanted: Elements) -> Result<(), NftError> {
        let mut tx = self.session.begin_replace();
        for name in [PORTS, PORTS_ANY, HAIRPIN] {
            tx = tx.add_set(set(name));
            let elements: Vec<_> = of_set(&wanted, name).map(|(k, v)| element(k, v)).collect();
            tx = chunked_elements(tx, &set(name), &elements);
        }
        for (name, base) in base_chains() {
            let chain = Chain::new(TABLE, name).map_err(NftError::Netlink)?.family(Family::Ip).base(base);
            tx = tx.add_chain(chain);
        }
        for (chain, exprs, comment) in self.rules() {
            tx = tx.add_rule(Rule::new(TABLE, chain).family(Family::Ip).expressions(exprs).comment(comment));
        }
        self.session.commit(tx).await?;
        self.applied = wanted;
        Ok(())
    }

    /// Makes the maps equal to `wanted`; writes nothing when they are.
    pub(crate) async fn update(&mut self, wanted: Elements) -> Result<(), NftError> {
        let tx = plan_update(self.session.begin(), &self.applied, &wanted);
        let Some(tx) = tx else { return Ok(()) };
        self.session.commit(tx).await?;
        self.applied = wanted;
        Ok(())
    }

    fn rules(&self) -> Vec<(&'static str, Vec<Expr>, &'static str)> {
        let loopback = Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8);
        let multicast = Ipv4Net::new_assert(Ipv4Addr::new(224, 0, 0, 0), 4);
        let join = |parts: Vec<Vec<Expr>>| parts.into_iter().flatten().collect::<Vec<_>>();
        let drop_it = || vec![Expr::Verdict(Verdict::Drop)];
        let mut rules = vec![
            (
                "guard",
                join(vec![iifname_prefix(POD_LINKS), net_match(load_daddr(0), loopback), drop_it()]),
                "pods never reach the node's loopback",
            ),
            (
                "guard",
                join(vec![iifname_prefix(POD_LINKS), net_match(load_saddr(0), loopback), drop_it()]),
                "pods never speak as loopback",
            ),
        ];
        // The name's end is part of the match: "lo" and nothing that merely begins so.
        let to_loopback = oifname_prefix("lo\0");
        rules.push((
            "forward",
            join(vec![to_loopback, drop_it()]),
            "cluster addresses that no rule took would go round on lo",
        ));
        for chain in ["prerouting", "output"] {
            rules.push((chain, hostport_rule(true), "host ports of one address"));
            rules.push((chain, hostport_rule(false), "host ports of all addresses"));
        }
        let masquerade = || vec![masquerade_random()];
        rules.push((
            "postrouting",
            join(vec![
                oifname_prefix(POD_LINKS),
                net_match(load_saddr(0), loopback),
                ct_status_dnat(),
                masquerade(),
            ]),
            "host ports on loopback",
        ));
        rules.push((
            "postrouting",
            join(vec![
                ct_status_dnat(),
                vec![load_saddr(0), load_daddr(1), in_set(HAIRPIN, 0)],
                masquerade(),
            ]),
            "a pod through its own host port",
        ));
        for range in &self.ranges {
            let mut exprs =
                join(vec![net_match(load_saddr(0), *range), net_mismatch(load_daddr(0), multicast)]);
            for inside in &self.ranges {
                exprs.extend(net_mismatch(load_daddr(0), *inside));
            }
            exprs.extend(masquerade());
            rules.push(("postrouting", exprs, "pods leaving the pod range"));
        }
        rules
    }
}

fn hostport_rule(one_address: bool) -> Vec<Expr> {
    let mut exprs = fib_daddr_local();
    let key = if one_address {
        vec![load_daddr(0), load_l4proto(1), load_dport(2), map_lookup(PORTS, 0)]
    } else {
        vec![load_l4proto(0), load_dport(1), map_lookup(PORTS_ANY, 0)]
    };
    exprs.extend(key);
    exprs.push(dnat_regs(0, 1));
    exprs
}

fn base_chains() -> [(&'static str, BaseChain); 5] {
    const RAW: i32 = -300;
    [
        ("guard", BaseChain::filter(FilterHook::Prerouting, Priority::Custom(RAW))),
        ("forward", BaseChain::filter(FilterHook::Forward, Priority::Custom(0))),
        ("prerouting", BaseChain::nat(NatHook::Prerouting, Priority::Custom(DNAT_PRIORITY))),
        ("output", BaseChain::nat(NatHook::Output, Priority::Custom(DNAT_PRIORITY))),
        ("postrouting", BaseChain::nat(NatHook::Postrouting, Priority::Custom(95))),
    ]
}

fn of_set<'a>(
    elements: &'a Elements,
    name: &'static str,
) -> impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)> {
    elements.iter().filter(move |((set, _), _)| *set == name).map(|((_, key), value)| (key, value))
}

fn plan_update(mut tx: Transaction, old: &Elements, new: &Elements) -> Option<Transaction> {
    if old == new {
        return None;
    }
    for name in [PORTS, PORTS_ANY, HAIRPIN] {
        let key = |k: &Vec<u8>| (name, k.clone());
        let gone: Vec<_> = of_set(old, name)
            .filter(|(k, v)| new.get(&key(k)) != Some(*v))
            .map(|(k, v)| element(k, v))
            .collect();
        let fresh: Vec<_> = of_set(new, name)
            .filter(|(k, v)| old.get(&key(k)) != Some(*v))
            .map(|(k, v)| element(k, v))
            .collect();
        if !gone.is_empty() {
            tx = tx.del_set_elements(&set(name), &gone);
        }
        tx = chunked_elements(tx, &set(name), &fresh);
    }
    Some(tx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PortMapping;

    fn record(sequence: u64, pod: &str, port: u16, protocol: &str, host_ip: Option<&str>) -> Record {
        Record {
            addresses: vec![pod.parse().unwrap()],
            ports: vec![PortMapping {
                host_port: port,
                container_port: 80,
                protocol: protocol.into(),
                host_ip: host_ip.map(|ip| ip.parse().unwrap()),
            }],
            sequence,
            ..Record::default()
        }
    }

    #[test]
    fn the_newest_attachment_has_the_port() {
        let records = [record(2, "10.0.0.2", 8080, "TCP", None), record(1, "10.0.0.1", 8080, "tcp", None)];
        let elements = render_ports(records.iter());
        let key = (PORTS_ANY, vec![6, 0, 0, 0, 0x1f, 0x90, 0, 0]);
        assert_eq!(elements[&key], [10, 0, 0, 2, 0, 80, 0, 0]);
    }

    #[test]
    fn an_address_of_the_node_and_udp_are_part_of_the_key() {
        let elements = render_ports([record(1, "10.0.0.1", 53, "UDP", Some("127.0.0.1"))].iter());
        assert!(elements.contains_key(&(PORTS, vec![127, 0, 0, 1, 17, 0, 0, 0, 0, 53, 0, 0])));
        assert!(of_set(&elements, PORTS_ANY).next().is_none());
    }
}
