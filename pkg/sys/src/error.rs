//! The error of every call to the operating system.

use std::io;
use std::path::{Path, PathBuf};

/// A call to the operating system that failed, and on what.
#[derive(Debug, thiserror::Error)]
pub enum SysError {
    /// A call about a file, directory or mount point.
    #[error("{action} {}", path.display())]
    Path {
        /// What was tried, as the start of a sentence (`mount tmpfs on`).
        action: &'static str,
        /// What it was tried on.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A call about this process or another.
    #[error("{action}")]
    Call {
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

impl SysError {
    /// Wraps a failed call about `path`.
    pub fn path(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Path { action, path: path.to_path_buf(), source: source.into() }
    }

    /// Wraps a failed call about processes.
    pub fn call(action: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Call { action, source: source.into() }
    }

    /// The system's answer.
    #[must_use]
    pub fn io(&self) -> &io::Error {
        match self {
            Self::Path { source, .. } | Self::Call { source, .. } => source,
        }
    }
}
