//! Addresses written as names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_proto::rr::Name;

/// `10-244-0-5` or `fd00--5` as an address.
pub(super) fn pod_address(label: &str) -> Option<IpAddr> {
    if label.matches('-').count() == 3 && !label.contains("--") {
        return label.replace('-', ".").parse::<Ipv4Addr>().ok().map(IpAddr::V4);
    }
    label.replace('-', ":").parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

/// The whole address that a name under `in-addr.arpa` or `ip6.arpa` stands for.
pub(super) fn reverse_address(name: &Name) -> Option<IpAddr> {
    let mut name = name.clone();
    name.set_fqdn(true);
    let net = name.parse_arpa_name().ok()?;
    (net.prefix_len() == net.max_prefix_len()).then(|| net.addr())
}
