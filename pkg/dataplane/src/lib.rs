//! Drivers that make the kernel equal to what netcalc wants.
//!
//! A [`Driver`] is given changes ([`Driver::apply`]) and keeps what it has programmed, so that a change costs as much
//! as it changes, an unchanged state costs nothing, and after somebody else's interference ([`Driver::drifted`])
//! [`Driver::resync`] can put everything back without asking anybody.
//!
//! | mode | where | how |
//! |---|---|---|
//! | `nftables` | table `ip kube-proxy` | netlink transactions, no program started, nothing listed |
//! | `iptables` | `nat`, `filter` | `iptables-restore --noflush` of the chains that changed |
//!
//! Invariants: every commit is all or nothing; a full sync replaces the rules in one commit, so no packet meets half a
//! rule set; starting one mode removes what the other left.

mod conntrack;
mod driver;
pub mod iptables;
mod names;
pub mod nft;
pub mod nftables;
mod service_route;
mod settings;

pub use conntrack::{FlowTable, Stale, stale_flows};
pub use driver::{DataplaneError, Driver, Mode};
pub use service_route::{has_default_route, route_service_range};
pub use settings::{LocalDetect, Settings};
