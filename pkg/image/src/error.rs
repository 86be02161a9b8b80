//! What can go wrong with images.

use std::io;
use std::path::{Path, PathBuf};

/// An image could not be built, read or imported.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A file could not be read or written.
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
    /// An archive is not what it should be.
    #[error("{} is not an image archive: {reason}", path.display())]
    Malformed {
        /// The archive.
        path: PathBuf,
        /// What is missing or wrong.
        reason: String,
    },
    /// A document of an image could not be written.
    #[error("encode the image's {document}")]
    Encode {
        /// Which.
        document: &'static str,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// No archive of the registry has such an image.
    #[cfg(feature = "registry")]
    #[error("no archive has the image {name}")]
    Unknown {
        /// Its name.
        name: String,
    },
    /// The registry cannot start.
    #[cfg(feature = "registry")]
    #[error("serve images")]
    Serve {
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// containerd cannot be reached.
    #[cfg(feature = "containerd")]
    #[error("connect to containerd at {}", socket.display())]
    Connect {
        /// Its socket.
        socket: PathBuf,
        /// Why not.
        #[source]
        source: tonic::transport::Error,
    },
    /// containerd refused.
    #[cfg(feature = "containerd")]
    #[error("{action} {subject}")]
    Containerd {
        /// What was asked.
        action: &'static str,
        /// About what: an image's name or a digest.
        subject: String,
        /// Its answer.
        #[source]
        source: Box<tonic::Status>,
    },
    /// No archive has an image of this name.
    #[error("no archive in {} has the image {name}", directory.display())]
    NoArchive {
        /// The image wanted.
        name: String,
        /// Where the archives are.
        directory: PathBuf,
    },
}

impl ImageError {
    pub(crate) fn file(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File { action, path: path.to_path_buf(), source }
    }

    #[cfg(feature = "containerd")]
    pub(crate) fn containerd(action: &'static str, subject: &str, source: tonic::Status) -> Self {
        Self::Containerd { action, subject: subject.to_string(), source: Box::new(source) }
    }
}
