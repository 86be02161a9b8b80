//! What the processes of a node tell each other: one JSON document each way at a time.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Everything init needs to make the node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NodeSpec {
    /// Unique on the machine; names the cgroup.
    pub(crate) id: String,
    /// The node's host name.
    pub(crate) name: String,
    /// The directory on the host that holds the node's private files.
    pub(crate) root: PathBuf,
    /// Whether the keeper leaves `root` behind.
    pub(crate) keep_root: bool,
    /// The node's address on the link to the outside client.
    pub(crate) node_address: Ipv4Addr,
    /// The outside client's address, which is the node's default gateway.
    pub(crate) lan_address: Ipv4Addr,
    /// The length of that network's prefix, in bits.
    pub(crate) prefix: u8,
}

/// What a process joining the node needs to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EnterSpec {
    /// Init's process id as the host sees it.
    pub(crate) init: i32,
    /// The cgroup to join, relative to each hierarchy.
    pub(crate) cgroup: String,
    /// Whether to stand outside the node, in the neighbour's network namespace.
    pub(crate) lan: bool,
}

/// A program that init keeps running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServiceSpec {
    pub(crate) name: String,
    /// The program and its arguments.
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// Inside the node; both outputs are appended to it.
    pub(crate) log: PathBuf,
    /// Whether to start it again when it ends.
    pub(crate) restart: bool,
}

/// A wish of the caller.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Start a service, or replace the one of the same name.
    Start(ServiceSpec),
    /// End a service and do not start it again.
    Stop { name: String },
    /// The service's process id inside the node.
    Pid { name: String },
    /// End this life of the node and begin the next.
    Reboot,
}

/// What the node says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// A life begins; init's process id as the host sees it.
    Born { init: i32 },
    /// The namespaces, mounts and links are there.
    Ready,
    /// The wish is fulfilled.
    Done,
    /// The answer to [`Request::Pid`]; `None` while the service is down.
    Pid(Option<i32>),
    /// The wish, or the node as a whole, failed.
    Failed(String),
}

/// How a life of the node ended, as init's exit code.
pub(crate) const EXIT_REBOOT: i32 = 77;
/// The node could not be made.
pub(crate) const EXIT_FAILED: i32 = 78;
