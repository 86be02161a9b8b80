//! What can go wrong with keys and certificates; every variant names the file.

use std::path::PathBuf;

/// An error about a key or certificate.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file could not be read or written.
    #[error("{action} {path}")]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// A file does not hold what it should. Authorities are never regenerated, so a person must decide.
    #[error(
        "{path} does not hold {what}: {why}; restore it from a backup, or move it away to start a new cluster"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// Half of a pair is missing.
    #[error("{present} exists but {missing} does not; restore it from a backup, or move both away")]
    HalfPair {
        /// The file that is there.
        present: PathBuf,
        /// The file that is not.
        missing: PathBuf,
    },
    /// A certificate could not be made.
    #[error("issue certificate {name}")]
    Issue {
        /// The common name.
        name: String,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
}
