//! What may be chosen about a node before it starts.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{LAN_ADDRESS, NODE_ADDRESS, Node};
use crate::TestkitError;
use crate::spec::NodeSpec;

/// Where private roots are made. A node's images and database do not belong into memory, where `/tmp` may be.
const BASE: &str = "/var/tmp";
/// Overrides [`BASE`].
const BASE_VARIABLE: &str = "COPEPOD_TRY_DIR";

/// Describes a node; see [`Node::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    name: String,
    base: PathBuf,
    keep_root: bool,
    node_address: Ipv4Addr,
    lan_address: Ipv4Addr,
}

impl Default for Builder {
    fn default() -> Self {
        let base = std::env::var_os(BASE_VARIABLE).map_or_else(|| PathBuf::from(BASE), PathBuf::from);
        Self {
            name: "copepod".to_string(),
            base,
            keep_root: false,
            node_address: NODE_ADDRESS,
            lan_address: LAN_ADDRESS,
        }
    }
}

impl Builder {
    /// The host name inside, `copepod` by default.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The directory in which the node's private root is made: `COPEPOD_TRY_DIR` or `/var/tmp` by default.
    #[must_use]
    pub fn base(mut self, base: impl Into<PathBuf>) -> Self {
        self.base = base.into();
        self
    }

    /// Leaves the private root behind, to look at afterwards.
    #[must_use]
    pub fn keep_root(mut self, keep: bool) -> Self {
        self.keep_root = keep;
        self
    }

    /// Other addresses than [`NODE_ADDRESS`] and [`LAN_ADDRESS`]; both in one /24.
    #[must_use]
    pub fn addresses(mut self, node: Ipv4Addr, lan: Ipv4Addr) -> Self {
        (self.node_address, self.lan_address) = (node, lan);
        self
    }

    /// Makes the node; returns when its namespaces, mounts and links are there.
    ///
    /// # Errors
    /// The caller is not root, or the machine refuses something.
    pub fn start(self) -> Result<Node, TestkitError> {
        if !copepod_sys::process::is_root() {
            return Err(TestkitError::NotRoot);
        }
        let id = unique_id();
        let root = self.base.join(format!("copepod-{id}"));
        std::fs::create_dir_all(&root).map_err(|e| TestkitError::file("create", &root, e))?;
        let root = root.canonicalize().map_err(|e| TestkitError::file("find", &root, e))?;
        Node::start(NodeSpec {
            id,
            name: self.name,
            root,
            keep_root: self.keep_root,
            node_address: self.node_address,
            lan_address: self.lan_address,
            prefix: 24,
        })
    }
}

/// Unique among the nodes of this machine: the caller's process id, and a number within it.
fn unique_id() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
