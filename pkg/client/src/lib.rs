//! Clients, informers and work queues: how every component talks to the API server.
//!
//! [`Client`] sends requests about a [`ResourceRef`] over one HTTP/2 connection and decodes answers into whatever the
//! caller asks for: `serde_json::Value`, a `k8s-openapi` type, or a struct with only the fields it reads. Failures
//! carry the server's Status ([`ClientError`]).
//!
//! [`Informer`] keeps a cache of such structs in step with the server (streaming list, or list and watch; resumed
//! where it broke off; listed again when its revision is gone) and tells any number of consumers what changed.
//! Memory follows from the type: a field that is not in the struct is not kept.
//!
//! [`WorkQueue`] holds the keys a controller has to look at. [`Recorder`] writes Events. [`lease`] takes and keeps a
//! leader lease.
//!
//! No type of the HTTP library shows in the public interface, so it can be exchanged.

mod client;
pub mod config;
mod error;
mod informer;
pub mod lease;
mod meta;
pub mod metrics;
mod options;
mod recorder;
mod resource;
pub mod resources;
pub mod serving;
mod tls;
mod verbs;
pub mod watch;
mod workqueue;

pub use client::{BearerSlot, Client};
pub use config::ClientConfig;
pub use error::{BoxError, ClientError, OptionalExt, Result};
pub use informer::{Delta, Index, Informer, InformerConfig};
pub use meta::{Labels, Meta, ObjectKey, OwnerReference};
pub use options::{DeleteOptions, ListOptions, Patch, Preconditions, Propagation, WatchOptions};
pub use recorder::{EventKind, ObjectRef, Recorder};
pub use resource::{ResourceRef, Target};
pub use tls::client_tls;
pub use verbs::{List, ListMeta, apply_merge};
pub use workqueue::{Outcome, WorkQueue};

/// An error with its causes in one line, for a log.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
