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

pub mod admission;
pub mod allocation;
pub mod config;
pub mod environment;
mod error;
mod events;
pub mod eviction;
pub mod healthz;
mod kubelet;
mod mirror;
pub mod node;
pub mod objects;
pub mod pleg;
pub mod pod;
pub mod ports;
pub mod prober;
mod run;
pub mod runtime;
pub mod runtime_class;
pub mod runtime_state;
pub mod server;
pub mod source;
pub mod status;
pub mod types;
pub mod volumes;
pub mod worker;

pub use config::Config;
pub use error::KubeletError;
pub use run::run;
