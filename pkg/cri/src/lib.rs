//! The container runtime port: CRI v1 as the kubelet sees it.
//!
//! [`RuntimeService`] and [`ImageService`] are the two object-safe ports of the Container Runtime
//! Interface. [`CriClient`] implements both over gRPC on a unix socket; [`fake::FakeRuntime`]
//! implements them in memory, so that the kubelet's loops are tested without a daemon.
//!
//! Messages are the generated types of [`v1`] (field numbers and names of `k8s.io/cri-api`
//! v0.37, see `proto/runtime_v1.proto`). The port adds nothing to them: what a runtime answers
//! is what the caller gets, and an error keeps the gRPC code and text, because events and
//! container statuses quote both.
//!
//! Invariants: no call is retried here; every call but image pulls, streams and exec has a
//! deadline, so that a hung runtime never hangs a pod worker for ever.

mod client;
mod error;
pub mod fake;
mod port;
pub mod v1;

pub use client::CriClient;
pub use error::{CriError, is_not_found};
pub use port::{CriFuture, EventStream, ImageService, RuntimeService};
