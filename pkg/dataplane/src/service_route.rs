//! A route for cluster addresses.
//!
//! A process of the node that connects to a cluster address is routed before its packet is rewritten. Without a
//! default route that look-up fails and nothing is ever rewritten. So on a machine without one the service range is
//! routed to `lo`: the rewritten packet is routed again, any other ends there. Where a default route exists the range
//! gets none: the kernel sends no refusal for a packet on its way to `lo`, and the table drops what no rule took.

use ipnet::Ipv4Net;
use nlink::netlink::route::Ipv4Route;
use nlink::netlink::{Connection, Route};

use crate::nft::NftError;

/// Whether the network namespace of the calling process has a default route (IPv4).
#[must_use]
pub fn has_default_route() -> bool {
    let table = std::fs::read_to_string("/proc/self/net/route").unwrap_or_default();
    names_default(&table)
}

/// The table's lines are interface, destination, gateway, flags, …, mask in the eighth column, in hexadecimal.
fn names_default(table: &str) -> bool {
    table.lines().skip(1).any(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        columns.get(1) == Some(&"00000000") && columns.get(7) == Some(&"00000000")
    })
}

/// Routes `range` to `lo`; nothing changes when it is routed there already.
///
/// # Errors
/// When netlink fails or the kernel refuses.
pub async fn route_service_range(range: Ipv4Net) -> Result<(), NftError> {
    let conn = Connection::<Route>::new().map_err(NftError::Netlink)?;
    let route = Ipv4Route::new(range.network(), range.prefix_len()).dev("lo");
    conn.replace_route(route).await.map_err(NftError::Netlink)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_route_is_seen() {
        let head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n";
        let link = "eth0\t004DA8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        let default = "eth0\t00000000\t014DA8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
        assert!(!names_default(&format!("{head}{link}")));
        assert!(names_default(&format!("{head}{link}{default}")));
    }
}
