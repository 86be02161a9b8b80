//! The `nftables` mode: table `ip kube-proxy`, laid out as upstream's, with one difference that makes a change cheap.
//!
//! Upstream picks an endpoint from an anonymous map inside each Service's rule, so that every endpoint change rewrites
//! the rule and its map, and each new map is compared with all others. Here all endpoints live in two named maps,
//! indexed by number; a Service owns a run of numbers, its rule says `numgen random mod COUNT offset FIRST map
//! @service-endpoints`, and a changed endpoint is a changed element.
//!
//! [`render`] turns one port's rules into elements and chains (pure, with golden files), [`ledger`] counts who needs
//! which element, [`plan`] compares what is with what should be, [`driver`] commits the difference.

mod base;
mod driver;
mod ledger;
mod model;
mod plan;
mod render;
mod slots;
mod wire;

pub use driver::{NftablesDriver, TABLE};
pub use render::describe;
