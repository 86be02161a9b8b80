//! Volumes of pods: what they contain, where they lie, how they are mounted.
//!
//! [`Volumes`] makes every volume of a pod ready below the pod's directory and says what a container mounts. What an
//! API volume contains is computed by pure functions ([`payload`], [`downward`]) from objects that an
//! [`ObjectSource`] hands out; [`atomic`] puts it on disk so that a reader sees the old or the new version, never a
//! mixture. Directory names are upstream's (`kubernetes.io~configmap/<name>`), since other software looks there.
//!
//! Invariants: every operation can be repeated; nothing outside the pod's directory is ever removed; a sub path never
//! leaves its volume, whatever links the container has made inside it.

pub mod atomic;
pub mod downward;
mod empty_dir;
mod error;
mod host_path;
mod mounter;
mod ownership;
pub mod payload;
mod source;
mod subpath;

pub use error::VolumeError;
pub use mounter::{ContainerMount, VolumeConfig, Volumes};
pub use source::{BoxFuture, Credential, NodeFacts, ObjectSource, TokenRequest};
