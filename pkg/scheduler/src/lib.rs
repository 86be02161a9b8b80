//! The scheduler: pure decisions over a snapshot of the cluster, and a loop that carries them out.
//!
//! Informers keep a [`snapshot::Snapshot`] (nodes with what is placed on them, trimmed to what decisions need) and a
//! [`queue::Queue`] of pods that wait. The loop takes one pod at a time: [`filter`] says which nodes take it, and in
//! upstream's words why the others do not; [`score`] picks the best; the place is reserved in the snapshot and the
//! binding is written in the background. If there is no place, [`preempt`] looks for less important pods to displace,
//! the reasons go into an event and the pod's condition, and the pod waits until something changes.
//!
//! Invariants: a pod is bound through the `binding` subresource only; a reserved place is given back when binding
//! fails; decisions read no clock and do no I/O.

mod claims;
pub mod config;
mod cycle;
mod devices;
pub mod filter;
pub mod node;
pub mod pod;
pub mod preempt;
pub mod queue;
pub mod resources;
pub mod score;
pub mod selector;
pub mod snapshot;

pub use config::{Config, SchedulerError, run};
