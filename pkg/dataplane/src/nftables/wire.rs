//! The model in the kernel's terms.

use std::net::Ipv4Addr;
use std::time::Duration;

use ipnet::Ipv4Net;
use nlink::netlink::nftables::{
    ChainName, CtKey, DynsetExpr, DynsetOp, Expr, Family, RawMessage, Set, SetDataType, SetElement,
    SetKeyType, Verdict,
};

use super::driver::TABLE;
use super::model::{Key, Rule, SetId, Value};
use crate::nft::{self, load_daddr, load_dport, load_l4proto, load_saddr};
use crate::settings::LocalDetect;

/// `NF_CT_STATE_BIT(IP_CT_NEW)`.
const CT_STATE_NEW: u32 = 8;

fn chain_name(name: &str) -> ChainName {
    ChainName::new(name).expect("names.rs keeps chain names within the kernel's limit")
}

/// A named set's declaration.
pub(crate) fn declare(id: SetId) -> Set {
    use SetKeyType::{InetProto, InetService, Ipv4Addr as Address, Mark};
    let key = match id {
        // A number in host order: nft knows no plain integer type, a mark is the same.
        SetId::ServiceEndpoints | SetId::AffinityEndpoints => Mark,
        SetId::HairpinConnections => SetKeyType::Concat(vec![Address, Address, InetProto, InetService]),
        SetId::NodePortIps | SetId::ClusterIps => Address,
        SetId::NoEndpointServices | SetId::FirewallIps | SetId::ServiceIps => {
            SetKeyType::Concat(vec![Address, InetProto, InetService])
        }
        SetId::NoEndpointNodePorts | SetId::ServiceNodePorts => {
            SetKeyType::Concat(vec![InetProto, InetService])
        }
    };
    let set = Set::new(TABLE, id.name()).family(Family::Ip).key_type(key);
    match id {
        SetId::HairpinConnections | SetId::NodePortIps | SetId::ClusterIps => set,
        SetId::ServiceEndpoints => {
            set.map(SetDataType::Value(SetKeyType::Concat(vec![Address, InetService])))
        }
        _ => set.vmap(),
    }
}

/// The declaration of a map of numbers, with the byte order of its keys: without it `nft list` shows them turned
/// around. The socket library has no name for that attribute, so the message is written out.
pub(crate) fn declare_numbered(id: SetId, number: u32) -> RawMessage {
    const NFT_MSG_NEWSET: u8 = 9;
    const NLM_F_CREATE_EXCL: u16 = 0x400 | 0x200;
    const SET_IS_MAP: u32 = 8;
    const TYPE_MARK: u32 = 19;
    const TYPE_ADDRESS_AND_PORT: u32 = (7 << 6) | 13;
    const VERDICT: u32 = 0xffff_ff00;
    const HOST_ENDIAN: u32 = 1;
    let number_of = |kind, value: u32| attribute(kind, &value.to_be_bytes());
    let text = |kind, value: &str| attribute(kind, &[value.as_bytes(), &[0]].concat());
    let data = match id {
        SetId::ServiceEndpoints => [number_of(6, TYPE_ADDRESS_AND_PORT), number_of(7, 8)].concat(),
        _ => number_of(6, VERDICT),
    };
    let byte_order = [[0, 4].as_slice(), &HOST_ENDIAN.to_ne_bytes()].concat();
    let attributes = [
        text(1, TABLE),
        text(2, id.name()),
        number_of(3, SET_IS_MAP),
        number_of(4, TYPE_MARK),
        number_of(5, 4),
        data,
        number_of(10, number),
        attribute(13, &byte_order),
    ];
    RawMessage::new(NFT_MSG_NEWSET, Family::Ip).flags(NLM_F_CREATE_EXCL).attrs(attributes.concat())
}

/// One netlink attribute.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).expect("our attributes are short");
    let mut out = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

/// An affinity set's declaration.
pub(crate) fn declare_affinity(name: &str, seconds: u32) -> Set {
    Set::new(TABLE, name)
        .family(Family::Ip)
        .key_type(SetKeyType::Ipv4Addr)
        .dynamic()
        .timeout(Duration::from_secs(seconds.into()))
}

/// An element with its value, to add.
pub(crate) fn element(key: Key, value: &Value) -> SetElement {
    let element = element_key(key);
    match value {
        Value::Member => element,
        Value::Goto(chain) => element.verdict(Verdict::GotoTo(chain_name(chain))),
        Value::Drop => element.verdict(Verdict::Drop),
        Value::Endpoint(to) => {
            element.value(SetElement::new(nft::bytes_of(&[&to.ip().octets(), &to.port().to_be_bytes()])))
        }
    }
}

/// An element's key, to remove it.
pub(crate) fn element_key(key: Key) -> SetElement {
    let bytes = match key {
        Key::Address(ip) => ip.octets().to_vec(),
        Key::AddressPort(ip, protocol, port) => {
            nft::bytes_of(&[&ip.octets(), &[protocol], &port.to_be_bytes()])
        }
        Key::Port(protocol, port) => nft::bytes_of(&[&[protocol], &port.to_be_bytes()]),
        Key::Hairpin(ip, protocol, port) => {
            nft::bytes_of(&[&ip.octets(), &ip.octets(), &[protocol], &port.to_be_bytes()])
        }
        Key::Index(index) => index.to_ne_bytes().to_vec(),
    };
    SetElement::new(bytes)
}

fn join(parts: impl IntoIterator<Item = Vec<Expr>>) -> Vec<Expr> {
    parts.into_iter().flatten().collect()
}

fn verdict(verdict: Verdict) -> Vec<Expr> {
    vec![Expr::Verdict(verdict)]
}

fn goto(chain: &str) -> Vec<Expr> {
    verdict(Verdict::GotoTo(chain_name(chain)))
}

fn from_pod(local: &LocalDetect, is_pod: bool) -> Vec<Expr> {
    match local {
        LocalDetect::None => Vec::new(),
        LocalDetect::ClusterCidr(net) if is_pod => nft::net_match(load_saddr(0), *net),
        LocalDetect::ClusterCidr(net) => nft::net_mismatch(load_saddr(0), *net),
        LocalDetect::InterfacePrefix(prefix) => {
            let mut exprs = nft::iifname_prefix(prefix);
            if let (false, Some(Expr::Cmp { op, .. })) = (is_pod, exprs.last_mut()) {
                *op = nlink::netlink::nftables::CmpOp::Neq;
            }
            exprs
        }
    }
}

fn l4proto(number: u8) -> Vec<Expr> {
    vec![load_l4proto(0), nft::cmp_eq(0, vec![number])]
}

fn not_loopback() -> Vec<Expr> {
    nft::net_mismatch(load_daddr(0), Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8))
}

fn on_node_port(set: SetId) -> Vec<Expr> {
    vec![load_l4proto(0), load_dport(1), nft::vmap_lookup(set.name(), 0)]
}

fn in_node_port_ips() -> Vec<Expr> {
    vec![load_daddr(0), nft::in_set(SetId::NodePortIps.name(), 0)]
}

/// A rule's expressions.
pub(crate) fn expressions(rule: &Rule) -> Vec<Expr> {
    match rule {
        Rule::Mark(bit) => nft::mark_or(*bit),
        Rule::MarkClusterIps(bit, local) => join([
            vec![load_daddr(0), nft::in_set(SetId::ClusterIps.name(), 0)],
            local.as_ref().map(|l| from_pod(l, false)).unwrap_or_default(),
            nft::mark_or(*bit),
        ]),
        Rule::MarkIfSourceLocal(bit) => join([nft::fib_saddr_local(), nft::mark_or(*bit)]),
        Rule::GotoIfPod(local, chain) => join([from_pod(local, true), goto(chain)]),
        Rule::GotoIfSourceLocal(chain) => join([nft::fib_saddr_local(), goto(chain)]),
        Rule::Goto(chain) => goto(chain),
        Rule::Jump(chain) => verdict(Verdict::JumpTo(chain_name(chain))),
        Rule::JumpIfNew(chain) => join([ct_state_new(), verdict(Verdict::JumpTo(chain_name(chain)))]),
        Rule::ReturnFrom(net) => join([nft::net_match(load_saddr(0), *net), verdict(Verdict::Return)]),
        Rule::Drop => verdict(Verdict::Drop),
        Rule::Reject => vec![nft::reject_port()],
        Rule::DropTo(net) => join([nft::net_match(load_daddr(0), *net), verdict(Verdict::Drop)]),
        Rule::RejectClusterIps => {
            vec![load_daddr(0), nft::in_set(SetId::ClusterIps.name(), 0), nft::reject_port()]
        }
        Rule::MasqueradeMarked(bit) => {
            join([nft::mark_has(*bit), nft::mark_xor(*bit), vec![nft::masquerade_random()]])
        }
        Rule::MasqueradeHairpin => {
            let set = nft::in_set(SetId::HairpinConnections.name(), 0);
            let key = vec![load_saddr(0), load_daddr(1), load_l4proto(2), load_dport(3), set];
            join([nft::ct_status_dnat(), key, vec![nft::masquerade_random()]])
        }
        Rule::ByAddress(set) => {
            vec![load_daddr(0), load_l4proto(1), load_dport(2), nft::vmap_lookup(set.name(), 0)]
        }
        Rule::ByNodePort(set, true) | Rule::ByNodePortInput(set, true) => {
            join([in_node_port_ips(), on_node_port(*set)])
        }
        Rule::ByNodePort(set, false) => join([nft::fib_daddr_local(), not_loopback(), on_node_port(*set)]),
        Rule::ByNodePortInput(set, false) => join([not_loopback(), on_node_port(*set)]),
        Rule::Dnat(protocol, to) => join([l4proto(*protocol), nft::dnat_immediate(*to.ip(), to.port())]),
        Rule::DnatRandom { protocol, count, first } => join([
            l4proto(*protocol),
            vec![
                nft::numgen_random(*count, *first),
                nft::map_lookup(SetId::ServiceEndpoints.name(), 0),
                nft::dnat_regs(0, 1),
            ],
        ]),
        Rule::GotoIfIn { set, chain } => join([vec![load_saddr(0), nft::in_set(set, 0)], goto(chain)]),
        Rule::GotoRandom { count, first } => {
            vec![nft::numgen_random(*count, *first), nft::vmap_lookup(SetId::AffinityEndpoints.name(), 0)]
        }
        Rule::Remember { set } => {
            vec![load_saddr(0), DynsetExpr::new(DynsetOp::Update, set.clone(), nft::word(0)).into()]
        }
    }
}

fn ct_state_new() -> Vec<Expr> {
    vec![
        Expr::Ct { dreg: nft::word(0), key: CtKey::State },
        Expr::Bitwise {
            sreg: nft::word(0),
            dreg: nft::word(0),
            len: 4,
            mask: CT_STATE_NEW.to_ne_bytes().to_vec(),
            xor: vec![0; 4],
        },
        nft::cmp_ne(0, vec![0; 4]),
    ]
}
