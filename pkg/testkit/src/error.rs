//! What can go wrong with a node in namespaces.

use std::io;
use std::path::PathBuf;

use copepod_sys::SysError;

/// A node could not be made, reached or removed.
#[derive(Debug, thiserror::Error)]
pub enum TestkitError {
    /// Namespaces and mounts are root's.
    #[error("a node in namespaces needs root")]
    NotRoot,
    /// A call to the operating system failed.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// A file operation failed.
    #[error("{action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A process could not be started.
    #[error("start {program}")]
    Start {
        /// Which.
        program: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The node's init said why it cannot go on.
    #[error("the node failed: {0}")]
    Init(String),
    /// The node is gone.
    #[error("the node has ended")]
    Gone,
    /// Talking to the node failed.
    #[error("talk to the node's init")]
    Control(#[source] io::Error),
    /// A network link could not be set up.
    #[error("set up a link: {action}")]
    Link {
        /// What was tried.
        action: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A key or certificate could not be made.
    #[error(transparent)]
    Pki(#[from] copepod_pki::PkiError),
    /// A component did not become ready in time.
    #[error("{name} is not ready after {seconds} s; the end of its log:\n{log}")]
    NotReady {
        /// Which.
        name: String,
        /// How long it was given.
        seconds: u64,
        /// The end of what it wrote.
        log: String,
    },
    /// One of upstream's programs has not been built.
    #[error("{0} is not built; run `cargo xtask upstream build all`")]
    NotBuilt(String),
}

impl TestkitError {
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File { action, path: path.into(), source }
    }

    /// The whole chain of causes in one line, for a log or a reply.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}
