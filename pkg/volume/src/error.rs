//! Why a volume is not ready. The texts are upstream's: users read them in `FailedMount` events.

use std::path::{Path, PathBuf};

/// An error about one volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// An object the volume names does not exist (yet).
    #[error("{0} {1:?} not found")]
    NotFound(&'static str, String),
    /// The object is there but lacks a key.
    #[error("references non-existent {0} key: {1}")]
    MissingKey(&'static str, String),
    /// The API server cannot be asked now.
    #[error("{0}")]
    Api(String),
    /// A path is not what the volume says it is.
    #[error("hostPath type check failed: {0} is not {1}")]
    HostPathType(String, &'static str),
    /// A plugin that this node does not have.
    #[error("no volume plugin matched: {0} volumes are not supported by this node")]
    Unsupported(String),
    /// A value in the pod is not usable.
    #[error("{0}")]
    Invalid(String),
    /// The system refused.
    #[error("{action} {}: {why}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        why: String,
    },
}

impl VolumeError {
    /// Attaches action and path to a system error.
    pub(crate) fn io<E: std::fmt::Display>(action: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { action, path, why: error.to_string() }
    }

    /// Whether waiting cannot help: the pod itself is wrong.
    #[must_use]
    pub fn permanent(&self) -> bool {
        matches!(self, Self::Invalid(_) | Self::Unsupported(_))
    }
}
