//! The Node object: registration, status, heartbeat.

mod agent;
pub mod info;
mod lease;
pub mod status;

pub use agent::{NodeAgent, NodeAgentParts};
