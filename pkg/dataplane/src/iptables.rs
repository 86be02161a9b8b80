//! The `iptables` mode: upstream's chains, written by `iptables-restore --noflush` through the nftables back end, so
//! that `iptables -t nat -L KUBE-SERVICES` and `nft list table ip nat` show the same rules.
//!
//! [`render`] is pure. A change rewrites the chains of the ports it concerns and the chains that list all Services,
//! which is how upstream's partial sync works too.

mod driver;
mod render;
mod save;

pub use driver::{IptablesDriver, IptablesError, cleanup};
pub use render::describe;
