//! Pure calculation: Services, EndpointSlices and facts about the node in, the desired rules of every port out.
//!
//! No clock, no files, no kernel. A [`Calculator`] is told what the API says, in any order, and hands out what
//! changed, per Service, in a form both drivers of `dataplane` can render:
//!
//! ```text
//! ServiceView ─┐
//! SliceView ───┼─▶ Calculator ─▶ Change { service, ports: Vec<PortRules> } ─▶ dataplane
//! NodeFacts ───┘
//! ```
//!
//! Invariants: the outcome depends on the current objects only, never on the order in which they came; a change of
//! one slice recalculates one Service; a missing object takes its rules away, never opens anything; the order of
//! endpoints in the outcome is that of their addresses, so equal inputs give equal rules.

mod calculator;
mod endpoints;
mod input;
mod rules;
mod verdict;

pub use calculator::{Calculator, Change};
pub use endpoints::Endpoint;
pub use input::{
    Conditions, EndpointPort, EndpointView, Hints, Ingress, Metadata, NodeFacts, ServicePortView,
    ServiceSpec, ServiceView, SliceView,
};
pub use rules::{Backend, Family, PortName, PortRules, Protocol, Route, ServiceName};
