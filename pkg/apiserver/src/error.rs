//! Why the server cannot run.

use std::net::SocketAddr;
use std::path::PathBuf;

/// An error that ends the server, or keeps it from starting.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A file cannot be read.
    #[error("read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{path} does not hold {what} in PEM form")]
    Pem {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
    },
    /// A token file has a bad line.
    #[error("{path}: line {line} is not `token,user,uid[,\"groups\"]`")]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// A flag has a value that cannot be used.
    #[error("--{flag}: {why}")]
    Flag {
        /// The flag, without dashes.
        flag: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The TLS settings do not fit together.
    #[error("TLS settings")]
    Tls(#[source] rustls::Error),
    /// The address cannot be listened on.
    #[error("listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The keys of ServiceAccount tokens cannot be used.
    #[error("service account keys")]
    Keys(#[from] copepod_pki::jwt::TokenKeyError),
    /// The registry cannot be opened.
    #[error("open the registry: {0}")]
    Registry(String),
}
