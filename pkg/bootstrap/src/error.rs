//! Why a node cannot be brought up; every text names the file or program and, where there is one, the fix.

use std::path::PathBuf;

/// An error on the way to a running control plane.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// A file operation failed.
    #[error("{action} {path}")]
    File {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Keys or certificates.
    #[error(transparent)]
    Pki(#[from] copepod_pki::PkiError),
    /// A document could not be rendered.
    #[error("render {what}: {why}")]
    Render {
        /// Which document.
        what: String,
        /// Why.
        why: String,
    },
    /// No usable address on this machine.
    #[error("no address found for this node: set nodeIps in {config}")]
    NoAddress {
        /// The configuration file.
        config: PathBuf,
    },
    /// The bundle lacks a program.
    #[error("{program} is missing; the bundle at {bundle} is incomplete, install it again")]
    MissingProgram {
        /// The program's path.
        program: PathBuf,
        /// The bundle's folder.
        bundle: PathBuf,
    },
    /// Another agent runs on this node.
    #[error("an agent runs already (process {pid}, lock {lock}); stop it with `copepod stop`")]
    AlreadyRunning {
        /// The other agent.
        pid: i32,
        /// The lock it holds.
        lock: PathBuf,
    },
    /// The runtime refused.
    #[error("{action}")]
    Runtime {
        /// What was tried.
        action: &'static str,
        /// Why.
        #[source]
        source: copepod_cri::CriError,
    },
    /// A process could not be ended.
    #[error("end process {pid}")]
    Process {
        /// Which.
        pid: i32,
        /// Why.
        #[source]
        source: copepod_sys::SysError,
    },
    /// containerd did not come up.
    #[error("containerd did not answer at {socket} within {seconds} s; its log is {log}")]
    Containerd {
        /// Its socket.
        socket: PathBuf,
        /// How long we waited.
        seconds: u64,
        /// Its log file.
        log: PathBuf,
    },
    /// The API server refused an addon.
    #[error("apply {object}")]
    Addon {
        /// Kind and name.
        object: String,
        /// Why.
        #[source]
        source: copepod_client::ClientError,
    },
}

/// Attaches the action and path to an I/O error.
pub(crate) fn file(
    action: &'static str,
    path: &std::path::Path,
) -> impl FnOnce(std::io::Error) -> BootstrapError {
    let path = path.to_owned();
    move |source| BootstrapError::File { action, path, source }
}
