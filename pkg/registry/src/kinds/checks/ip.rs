//! IP addresses and networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::kinds::at::At;

/// Parses as Go's lenient parser does: leading zeros in IPv4 parts are ignored.
pub(crate) fn parse_lenient(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse() {
        return Some(ip);
    }
    let parts: Vec<&str> = text.split('.').collect();
    let [a, b, c, d] = parts.as_slice() else { return None };
    let part = |p: &&str| {
        let digits = !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit());
        digits
            .then(|| p.trim_start_matches('0'))
            .map(|p| if p.is_empty() { "0" } else { p })?
            .parse::<u8>()
            .ok()
    };
    Some(IpAddr::V4(Ipv4Addr::new(part(a)?, part(b)?, part(c)?, part(d)?)))
}

/// The IPv4 address inside an IPv4-mapped IPv6 one.
pub(crate) fn mapped(ip: IpAddr) -> Option<Ipv4Addr> {
    match ip {
        IpAddr::V6(ip) => ip.to_ipv4_mapped(),
        IpAddr::V4(_) => None,
    }
}

/// An address: parsable, without leading zeros, not IPv4-mapped. `old` addresses pass as they are.
pub(crate) fn address(at: &At<'_>, old: &[&str]) {
    let text = at.str();
    if old.contains(&text) {
        return;
    }
    let Some(ip) = parse_lenient(text) else {
        return at.invalid_as(text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    };
    if text.parse::<IpAddr>().is_err() {
        at.invalid("must not have leading 0s");
    } else if mapped(ip).is_some() {
        at.invalid("must not be an IPv4-mapped IPv6 address");
    }
}

/// The same in canonical form.
pub(crate) fn canonical_address(at: &At<'_>) {
    let before = at.errors();
    address(at, &[]);
    if at.errors() == before
        && let Some(ip) = parse_lenient(at.str())
        && ip.to_string() != at.str()
    {
        at.invalid(format!("must be in canonical form (\"{ip}\")"));
    }
}

/// The address and the length of a network in CIDR notation.
pub(crate) fn split_network(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, bits) = text.split_once('/')?;
    let ip = parse_lenient(ip)?;
    let max = if ip.is_ipv4() { 32 } else { 128 };
    Some((ip, bits.parse().ok().filter(|b| *b <= max)?))
}

/// The first address of a network that holds `ip`.
pub(crate) fn network_of(ip: IpAddr, bits: u8) -> IpAddr {
    ipnet::IpNet::new(ip, bits).map_or(ip, |net| net.trunc().addr())
}

/// A network in CIDR notation. `old` networks pass as they are.
pub(crate) fn cidr(at: &At<'_>, old: &[&str]) {
    let text = at.str();
    if old.contains(&text) {
        return;
    }
    let Some((ip, bits)) = split_network(text) else {
        return at.invalid_as(text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    };
    let strict = text.parse::<ipnet::IpNet>().ok();
    let zeros = text.split_once('/').is_some_and(|(_, bits)| bits.len() > 1 && bits.starts_with('0'));
    if strict.is_none() || zeros {
        at.invalid("must not have leading 0s in IP or prefix length");
    } else if mapped(ip).is_some() {
        at.invalid("must not have an IPv4-mapped IPv6 address");
    } else if ipnet::IpNet::new(ip, bits).is_ok_and(|net| net.trunc().addr() != ip) {
        at.invalid("must not have bits set beyond the prefix length");
    }
}

/// The same in canonical form.
pub(crate) fn canonical_cidr(at: &At<'_>) {
    let before = at.errors();
    cidr(at, &[]);
    if at.errors() == before
        && let Ok(net) = at.str().parse::<ipnet::IpNet>()
        && net.to_string() != at.str()
    {
        at.invalid(format!("must be in canonical form (\"{net}\")"));
    }
}

/// An address that packets can be sent to.
pub(crate) fn endpoint(at: &At<'_>) {
    let Some(ip) = parse_lenient(at.str()) else {
        return at.invalid_as(at.str(), "must be a valid IP address");
    };
    let ip = mapped(ip).map_or(ip, IpAddr::V4);
    if ip.is_unspecified() {
        at.invalid(format!("may not be unspecified ({})", at.str()));
    }
    if ip.is_loopback() {
        at.invalid("may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (local, multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets().starts_with(&[224, 0, 0])),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), link_multicast(ip)),
    };
    if local {
        at.invalid("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if multicast {
        at.invalid("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

fn link_multicast(ip: Ipv6Addr) -> bool {
    ip.segments()[0] & 0xff0f == 0xff02
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors(check: impl Fn(&At<'_>), text: &str) -> Vec<String> {
        let value = json!(text);
        let found = crate::kinds::kind::collect(|sink| check(&At::root(&value, sink)));
        found.into_iter().map(|e| e.detail).collect()
    }

    #[test]
    fn addresses_and_networks() {
        let ip = |text| errors(|at| address(at, &[]), text);
        assert!(ip("10.0.0.1").is_empty() && ip("fe80::1").is_empty());
        assert_eq!(ip("010.0.0.1"), ["must not have leading 0s"]);
        assert_eq!(ip("::ffff:1.2.3.4"), ["must not be an IPv4-mapped IPv6 address"]);
        assert_eq!(ip("x").len(), 1);
        let net = |text| errors(|at| cidr(at, &[]), text);
        assert!(net("10.0.0.0/8").is_empty());
        assert_eq!(net("10.0.0.1/8"), ["must not have bits set beyond the prefix length"]);
        assert_eq!(net("10.0.0.0/40"), ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]);
        assert_eq!(
            errors(endpoint, "127.0.0.1"),
            ["may not be in the loopback range (127.0.0.0/8, ::1/128)"]
        );
    }
}
