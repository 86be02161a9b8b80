//! Errors of the kubelet's outer edge; inner modules have their own.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the kubelet cannot start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// The runtime endpoint cannot be used.
    #[error("container runtime at {endpoint}")]
    Runtime {
        /// The endpoint as configured.
        endpoint: String,
        /// What the port said.
        #[source]
        source: copepod_cri::CriError,
    },
    /// A directory of ours cannot be made.
    #[error("directory {path}")]
    Directory {
        /// Which.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// A listener cannot be bound.
    #[error("listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The configuration cannot work; all problems at once.
    #[error("invalid kubelet configuration: {}", .0.join("; "))]
    Config(Vec<String>),
    /// The API client cannot be built from the configured credentials.
    #[error("API client: {0}")]
    Client(String),
    /// A certificate or authority of the server cannot be used.
    #[error("{path}: {why}")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The server on :10250 failed.
    #[error("kubelet server: {0}")]
    Server(String),
}
