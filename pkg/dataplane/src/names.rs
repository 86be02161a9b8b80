//! Names of chains and sets, the same as upstream's: people and tools look for them.

use copepod_netcalc::PortName;
use sha2::{Digest, Sha256};
use std::net::SocketAddr;

/// Long enough for every prefix to fit the kernel's 255.
const BASE_MAX: usize = 239;

/// Base32 (RFC 4648, upper case), the first `len` characters.
fn base32(bytes: &[u8], len: usize) -> String {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    (0..len)
        .map(|i| {
            let bit = i * 5;
            let pair = u16::from_be_bytes([bytes[bit / 8], bytes.get(bit / 8 + 1).copied().unwrap_or(0)]);
            ALPHABET[usize::from(pair >> (11 - bit % 8)) & 31] as char
        })
        .collect()
}

fn hashed(text: &str, len: usize) -> String {
    base32(&Sha256::digest(text.as_bytes()), len)
}

/// The iptables chain `prefix` for a port: `KUBE-SVC-`, `KUBE-SVL-`, `KUBE-EXT-` or `KUBE-FW-`.
pub(crate) fn iptables_chain(prefix: &str, port: &PortName) -> String {
    format!("{prefix}{}", hashed(&format!("{port}{}", port.protocol.name()), 16))
}

/// The iptables chain of an endpoint.
pub(crate) fn iptables_endpoint(port: &PortName, endpoint: SocketAddr) -> String {
    format!("KUBE-SEP-{}", hashed(&format!("{port}{}{endpoint}", port.protocol.name()), 16))
}

fn with_hash(text: &str) -> String {
    let mut name = format!("{}-{text}", hashed(text, 8));
    if name.len() > BASE_MAX {
        name.truncate(BASE_MAX - 3);
        name.push_str("...");
    }
    name
}

fn nftables_text(port: &PortName) -> String {
    format!("{}/{}/{}/{}", port.service.namespace, port.service.name, port.protocol.name(), port.port)
}

/// The nftables chain name of a port, to follow `service-`, `local-`, `external-` or `firewall-`.
pub(crate) fn nftables_base(port: &PortName) -> String {
    with_hash(&nftables_text(port))
}

/// The nftables name of an endpoint, to follow `endpoint-` or `affinity-`.
pub(crate) fn nftables_endpoint(port: &PortName, endpoint: SocketAddr) -> String {
    let ip = endpoint.ip().to_string().replace(':', ".");
    with_hash(&format!("{}__{ip}/{}", nftables_text(port), endpoint.port()))
}

#[cfg(test)]
mod tests {
    use copepod_netcalc::{Protocol, ServiceName};

    use super::*;

    fn port(namespace: &str, name: &str, port: &str) -> PortName {
        PortName { service: ServiceName::new(namespace, name), port: port.into(), protocol: Protocol::Tcp }
    }

    #[test]
    fn the_published_names_match() {
        let p80 = port("ns1", "svc1", "p80");
        assert_eq!(iptables_chain("KUBE-SVC-", &p80), "KUBE-SVC-XPGD46QRK7WJZT7O");
        assert_eq!(iptables_endpoint(&p80, "10.180.0.1:80".parse().unwrap()), "KUBE-SEP-SXIVWICOYRO3J4NJ");
        let api = port("default", "kubernetes", "https");
        assert_eq!(iptables_chain("KUBE-SVC-", &api), "KUBE-SVC-NPX46M4PTMTKRN6Y");
        assert_eq!(nftables_base(&p80), "ULMVA6XW-ns1/svc1/tcp/p80");
    }

    #[test]
    fn a_long_name_is_cut() {
        let long = port(&"n".repeat(63), &"s".repeat(63), &"p".repeat(150));
        assert_eq!(nftables_base(&long).len(), BASE_MAX);
    }
}
