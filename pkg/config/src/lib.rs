//! Where everything of a node lies, and what its owner may set.
//!
//! [`Layout`] derives every path from one root, so that a whole node can live in a temporary directory. [`NodeConfig`]
//! is the one configuration file of the appliance; unknown keys are refused and all problems are reported at once.
//! [`ComponentConfig`] is for components that run alone, with upstream's configuration files.

mod component;
mod duration;
mod layout;
mod node;

pub use component::{ComponentConfig, load_component, parse_component};
pub use duration::GoDuration;
pub use layout::Layout;
pub use node::{ConfigError, NodeConfig, ProxyMode};
