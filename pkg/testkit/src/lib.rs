//! Nodes in namespaces of their own: the library under `copepod try` and under every test that touches the network,
//! mounts or containers.
//!
//! [`Node::builder`] starts three processes, all of them this same program under a hidden name:
//!
//! ```text
//! caller ──socket──┐                                    (test, or `copepod try`)
//!  └ keeper        │  host namespaces, own session: starts boots, removes every trace at the end
//!     └ boot       │  one for each life of the node: the PID namespace hangs on it
//!        └ init <──┘  pid 1 inside: makes the other namespaces, mounts and links; starts and restarts services
//!           └ services, and whatever `Node::command` starts
//! ```
//!
//! The socket is the life line: when its other end closes, be it by [`Node::stop`] or by a SIGKILL of the caller, init
//! exits, the kernel ends everything in its PID namespace, and the keeper removes the cgroups and the data root. A
//! reboot is the same without the last step: namespaces, mounts, rules, links and cgroups all go, files on "disk" stay.
//!
//! Inside, the node is at root `/` and uses upstream's real paths: `/etc` and `/opt` are overlays, `/var/lib`,
//! `/var/log` and their like are the node's own directories, `/run` is a tmpfs, and nothing written there reaches the
//! host. `/tmp`, `/dev` and the rest of the file system are the host's.
//!
//! [`Oracle`] runs upstream's own components inside a node, each replaceable by ours or left out: the second opinion
//! against which every part of this project is developed.
//!
//! A program that uses this crate calls [`dispatch`] first thing in `main`, before it starts a thread.

mod cluster;
mod error;
mod forward;
mod node;
pub mod ns;
mod oracle;
mod spec;
mod stage;
mod upstream;

pub use cluster::{Cluster, ClusterOptions};
pub use error::TestkitError;
pub use node::{Builder, LAN_ADDRESS, NODE_ADDRESS, Node, Service, Side};
pub use oracle::{Implementation, Oracle, Part, Parts};
pub use stage::dispatch;
pub use upstream::upstream;
