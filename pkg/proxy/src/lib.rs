//! kube-proxy: watches Services, EndpointSlices and this Node, and keeps the kernel in step.
//!
//! ```text
//! informers ─▶ events ─▶ Calculator (netcalc) ─▶ changes ─▶ Driver (dataplane) ─▶ kernel
//!                                            └─▶ health check node ports, metrics, healthz
//! ```
//!
//! One task owns calculator and driver. It sleeps until an event comes, takes all that are queued, and commits their
//! outcome once: a burst costs one commit, a quiet cluster costs nothing. Nothing is written before Services and
//! EndpointSlices have both been listed in full, so that a restart never empties the rules. A failed commit is tried
//! again with growing pauses. When somebody else removes rules, the driver says so and everything is put back.

mod config;
mod feed;
mod health;
mod learn;
mod metrics;
mod node_health;
mod run;
mod serve;

pub use config::{Config, KubeProxyConfiguration, NodePortAddresses};
pub use copepod_dataplane::Mode;
pub use run::{ProxyError, run};
