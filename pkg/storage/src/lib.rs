//! Claims, volumes and classes of storage, trimmed to what binding them takes, and which volume fits a claim best.
//!
//! The volume binder and the scheduler must agree on that: the one binds at once, the other when it knows the node.
//! Pure: no I/O, no clock.

mod matching;
mod views;

pub use matching::{best, modes_differ, refusal};
pub use views::{
    Claim, ClaimRef, ClaimSpec, ClaimStatus, CsiVolume, HostPath, PersistentVolume, StorageClass, VolumeSpec,
};

/// Annotation of a claim that has been bound once.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Annotation of a claim or volume that a controller, not a user, has brought together with its counterpart.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Annotation of a claim with the node on which its volume is to be made.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
