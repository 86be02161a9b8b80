//! The pod network: a CNI 1.1 plugin in Calico's manner, and the node-local service it asks for addresses.
//!
//! Two programs share this crate. The plugin (`cmd/copepod-cni`, see [`plugin`]) is started by the container runtime
//! for every pod; it opens one blocking netlink socket, makes a veth pair, prints the result and ends. The agent runs
//! [`ipam::serve`]: it owns addresses and host ports, keeps them in a [`NodeStore`], and keeps the kernel's `ip
//! copepod-cni` table (masquerade, host ports, loopback guard) equal to them.
//!
//! ```text
//! containerd ─exec─▶ copepod-cni ──unix socket, one JSON line each way──▶ ipam::serve ─▶ NodeStore (sled)
//!                        │ netlink: veth, addresses, routes, sysctls            └──▶ nf_tables
//! ```
//!
//! Invariants: a plugin call needs no API token and no cluster; an address is on disk before the plugin learns it; an
//! address is never given to two pods; DEL succeeds however little is left of the pod; a DEL that arrives late for a
//! dead sandbox never touches the sandbox that replaced it.

mod args;
mod bandwidth;
mod config;
mod error;
pub mod ipam;
mod link;
mod names;
mod netlink;
mod netns;
pub mod plugin;
mod result;
mod store;
mod sysctl;
pub mod wire;

pub use args::{Command, Invocation};
pub use config::{NetConf, PortMapping};
pub use error::{CniError, code};
pub use names::{handle, host_interface};
pub use result::CniResult;
pub use store::{Area, NodeStore, Pair, StoreError};
