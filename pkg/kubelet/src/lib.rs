//! The kubelet: makes the pods of one node real and reports on them.
//!
//! Data flow: [`source`]s (manifest directory, API server) feed one mux, which diffs them into pod
//! updates. [`worker`] keeps one task per pod UID; what a worker does next is decided by the pure
//! function [`worker::step`]. A worker's sync compares the pod with what the runtime holds
//! ([`runtime::plan::plan_pod_actions`], pure) and applies the difference through the CRI port.
//! Container events come back through [`pleg`] and wake the worker concerned. [`status`] renders
//! the pod's status from spec and runtime state (pure) and hands it to the status manager, which
//! writes it to the API server when there is one.
//!
//! Invariants:
//! - Everything works with no API server; nothing here waits for one.
//! - No pod is cleaned up before every configured source has spoken once.
//! - A worker's phase only moves forward: wait, sync, terminating, terminated.
//! - A pod leaves the API only after its containers are gone.
//! - Containers without our labels are never touched.

pub mod config;
pub mod volumes;
pub mod objects;
pub mod environment;
mod error;
pub mod ports;
pub mod types;

pub use config::Config;
pub use error::KubeletError;
