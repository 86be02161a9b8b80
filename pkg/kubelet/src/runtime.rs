//! The pod runtime: from a pod spec and what the runtime holds to CRI calls.
//!
//! [`plan`] decides, the `render` modules ([`sandbox`], [`container`], [`security`], [`dns`],
//! [`hosts`]) turn specs into CRI messages, [`PodRuntime`] applies.

pub mod backoff;
pub mod cgroup;
pub mod container;
pub mod dns;
pub mod gc;
pub mod hooks;
pub mod hosts;
pub mod images;
pub mod kill;
pub mod labels;
pub mod logs;
mod manager;
pub mod plan;
pub mod sandbox;
pub mod security;
pub mod userns;
pub mod view;

pub use manager::{ERROR_RETRY, PodRuntime, RuntimePorts, StartFailure, SyncOutcome, field_path, pod_text};
