//! A route for cluster addresses.
//!
//! A process of the node that connects to a cluster address is routed before its packet is rewritten. Without a
//! default route that look-up fails and nothing is ever rewritten; with one, a packet that no rule took would leave by
//! the uplink. So the service range is routed to `lo`: the rewritten packet is routed again, any other ends there.

use ipnet::Ipv4Net;
use nlink::netlink::route::Ipv4Route;
use nlink::netlink::{Connection, Route};

use crate::nft::NftError;

/// Routes `range` to `lo`; nothing changes when it is routed there already.
///
/// # Errors
/// When netlink fails or the kernel refuses.
pub async fn route_service_range(range: Ipv4Net) -> Result<(), NftError> {
    let conn = Connection::<Route>::new().map_err(NftError::Netlink)?;
    let route = Ipv4Route::new(range.network(), range.prefix_len()).dev("lo");
    conn.replace_route(route).await.map_err(NftError::Netlink)
}
