//! Where everything of a node lies, and what its owner may set.
//!
//! [`Layout`] derives every path from one root, so that a whole node can live in a temporary directory. [`NodeConfig`]
//! is the one configuration file of the appliance; unknown keys are refused and all problems are reported at once.

mod layout;
mod node;

pub use layout::Layout;
pub use node::{ConfigError, NodeConfig, ProxyMode};
