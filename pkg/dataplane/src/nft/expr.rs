//! Expression builders. Registers are addressed as 4-byte words, so that concatenated keys are laid out by word number.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use nlink::netlink::nftables::{
    CmpOp, CtKey, Expr, FibFlags, FibResult, LookupExpr, MetaKey, NumgenKind, PayloadBase, RawExpr, Register,
};

/// `RTN_LOCAL`, what `fib ... type` yields for an address of this machine.
const RTN_LOCAL: u32 = 2;
/// `IPS_DST_NAT`, the conntrack status bit of a connection whose destination was rewritten.
const IPS_DST_NAT: u32 = 1 << 5;
/// `NF_NAT_RANGE_PROTO_RANDOM_FULLY`.
const RANDOM_FULLY: u32 = 1 << 4;

/// Register word `n` (0..=15).
#[must_use]
pub fn word(n: usize) -> Register {
    Register::word(n).expect("nf_tables has 16 register words and no key of ours is longer")
}

fn payload(base: PayloadBase, offset: u32, len: u32, to: usize) -> Expr {
    Expr::Payload { dreg: word(to), base, offset, len }
}

/// `ip saddr` into word `to`.
#[must_use]
pub fn load_saddr(to: usize) -> Expr {
    payload(PayloadBase::Network, 12, 4, to)
}

/// `ip daddr` into word `to`.
#[must_use]
pub fn load_daddr(to: usize) -> Expr {
    payload(PayloadBase::Network, 16, 4, to)
}

/// `meta l4proto` into word `to`.
#[must_use]
pub fn load_l4proto(to: usize) -> Expr {
    Expr::Meta { dreg: word(to), key: MetaKey::L4Proto }
}

/// `th dport` into word `to`.
#[must_use]
pub fn load_dport(to: usize) -> Expr {
    payload(PayloadBase::Transport, 2, 2, to)
}

/// Continue only when word `reg` starts with `data`.
#[must_use]
pub fn cmp_eq(reg: usize, data: Vec<u8>) -> Expr {
    Expr::Cmp { sreg: word(reg), op: CmpOp::Eq, data }
}

/// Continue only when word `reg` does not start with `data`.
#[must_use]
pub fn cmp_ne(reg: usize, data: Vec<u8>) -> Expr {
    Expr::Cmp { sreg: word(reg), op: CmpOp::Neq, data }
}

/// Continue only when the key at word `reg` is in `set`.
#[must_use]
pub fn in_set(set: &str, reg: usize) -> Expr {
    LookupExpr::new(set, word(reg)).into()
}

/// Replaces word `reg` onwards by the value `map` has for the key there; no entry ends the rule.
#[must_use]
pub fn map_lookup(map: &str, reg: usize) -> Expr {
    LookupExpr::new(map, word(reg)).dreg(word(0)).into()
}

/// Follows the verdict `map` has for the key at word `reg`.
#[must_use]
pub fn vmap_lookup(map: &str, reg: usize) -> Expr {
    LookupExpr::new(map, word(reg)).dreg(Register::Verdict).into()
}

/// `numgen random mod MODULUS offset OFFSET` into word 0.
#[must_use]
pub fn numgen_random(modulus: u32, offset: u32) -> Expr {
    Expr::Numgen { dreg: word(0), kind: NumgenKind::Random, modulus, offset }
}

fn bitwise(mask: u32, xor: u32) -> Expr {
    Expr::Bitwise {
        sreg: word(0),
        dreg: word(0),
        len: 4,
        mask: mask.to_ne_bytes().to_vec(),
        xor: xor.to_ne_bytes().to_vec(),
    }
}

fn load_mark() -> Expr {
    Expr::Meta { dreg: word(0), key: MetaKey::Mark }
}

/// Continue only when the packet mark has `bit`.
#[must_use]
pub fn mark_has(bit: u32) -> Vec<Expr> {
    vec![load_mark(), bitwise(bit, 0), cmp_ne(0, 0_u32.to_ne_bytes().to_vec())]
}

/// Sets `bit` in the packet mark.
#[must_use]
pub fn mark_or(bit: u32) -> Vec<Expr> {
    vec![load_mark(), bitwise(!bit, bit), Expr::MetaSet { key: MetaKey::Mark, sreg: word(0) }]
}

/// Flips `bit` in the packet mark.
#[must_use]
pub fn mark_xor(bit: u32) -> Vec<Expr> {
    vec![load_mark(), bitwise(u32::MAX, bit), Expr::MetaSet { key: MetaKey::Mark, sreg: word(0) }]
}

/// `ct status dnat`.
#[must_use]
pub fn ct_status_dnat() -> Vec<Expr> {
    vec![
        Expr::Ct { dreg: word(0), key: CtKey::Status },
        bitwise(IPS_DST_NAT, 0),
        cmp_ne(0, 0_u32.to_ne_bytes().to_vec()),
    ]
}

fn fib_local(flags: FibFlags) -> Vec<Expr> {
    vec![
        Expr::Fib { dreg: word(0), result: FibResult::AddrType, flags },
        cmp_eq(0, RTN_LOCAL.to_ne_bytes().to_vec()),
    ]
}

/// `fib daddr type local`: the destination is one of this machine's addresses.
#[must_use]
pub fn fib_daddr_local() -> Vec<Expr> {
    fib_local(FibFlags::DADDR)
}

/// `fib saddr type local`: the source is one of this machine's addresses.
#[must_use]
pub fn fib_saddr_local() -> Vec<Expr> {
    fib_local(FibFlags::SADDR)
}

fn ifname_prefix(key: MetaKey, prefix: &str) -> Vec<Expr> {
    vec![Expr::Meta { dreg: word(0), key }, cmp_eq(0, prefix.as_bytes().to_vec())]
}

/// `iifname "PREFIX*"`.
#[must_use]
pub fn iifname_prefix(prefix: &str) -> Vec<Expr> {
    ifname_prefix(MetaKey::IifName, prefix)
}

/// `oifname "PREFIX*"`.
#[must_use]
pub fn oifname_prefix(prefix: &str) -> Vec<Expr> {
    ifname_prefix(MetaKey::OifName, prefix)
}

/// Continue only when the address loaded by `load` lies in `net`.
#[must_use]
pub fn net_match(load: Expr, net: Ipv4Net) -> Vec<Expr> {
    net_compare(load, net, CmpOp::Eq)
}

/// Continue only when the address loaded by `load` lies outside `net`.
#[must_use]
pub fn net_mismatch(load: Expr, net: Ipv4Net) -> Vec<Expr> {
    net_compare(load, net, CmpOp::Neq)
}

fn net_compare(load: Expr, net: Ipv4Net, op: CmpOp) -> Vec<Expr> {
    let mask = net.netmask().octets().to_vec();
    let mut out = vec![load];
    if net.prefix_len() < 32 {
        out.push(Expr::Bitwise { sreg: word(0), dreg: word(0), len: 4, mask, xor: vec![0; 4] });
    }
    out.push(Expr::Cmp { sreg: word(0), op, data: net.network().octets().to_vec() });
    out
}

/// `masquerade fully-random`.
#[must_use]
pub fn masquerade_random() -> Expr {
    RawExpr::new("masq", attr_be32(1, RANDOM_FULLY)).into()
}

/// `reject` with ICMP port unreachable, which `connect` reports as "connection refused".
#[must_use]
pub fn reject_port() -> Expr {
    Expr::Reject { reject_type: 0, icmp_code: 3 }
}

/// `dnat` to the address in word `addr` and the port in word `port`.
#[must_use]
pub fn dnat_regs(addr: usize, port: usize) -> Expr {
    const DNAT: u32 = 1;
    const FAMILY_IPV4: u32 = 2;
    let mut data = attr_be32(1, DNAT);
    data.extend(attr_be32(2, FAMILY_IPV4));
    data.extend(attr_be32(3, word(addr).wire()));
    data.extend(attr_be32(5, word(port).wire()));
    RawExpr::new("nat", data).into()
}

/// `dnat to ADDR:PORT`.
#[must_use]
pub fn dnat_immediate(addr: Ipv4Addr, port: u16) -> Vec<Expr> {
    vec![
        Expr::Immediate { dreg: word(0), data: addr.octets().to_vec() },
        Expr::Immediate { dreg: word(1), data: port.to_be_bytes().to_vec() },
        dnat_regs(0, 1),
    ]
}

/// One netlink attribute holding a big-endian u32.
fn attr_be32(kind: u16, value: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(8);
    out.extend(8_u16.to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(value.to_be_bytes());
    out
}

/// The concatenation of key fields, each padded to a word as the kernel lays them out.
#[must_use]
pub fn bytes_of(fields: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields {
        out.extend_from_slice(field);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}
