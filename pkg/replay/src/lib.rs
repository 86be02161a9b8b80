//! Recorded requests, replayed on any API server and compared with what upstream's answered.
//!
//! A [`Script`] is a `.http` file: requests one after the other, with values of earlier answers in later ones. A
//! [`Target`] is a server to send them to; [`play`] yields one [`Answer`] a request, in a normal form from which
//! everything is gone that two right servers may differ in ([`ALLOWED`] names each such thing and its reason).
//! [`compare`] tells two runs apart, field by field. Upstream's answers are kept beside the script as a golden file
//! ([`golden`]), so that a comparison needs no upstream.
//!
//! ```text
//! .http ──parse──▶ Script ──play(Target)──▶ [Answer] ──compare──▶ [Difference]
//!                                              ▲ golden file, or a second play
//! ```

mod answer;
mod compare;
pub mod golden;
mod normal;
mod script;
mod send;
mod server;

pub use answer::Answer;
pub use compare::{Difference, compare};
pub use normal::{ALLOWED, Allowed};
pub use script::{Request, Script};
pub use send::{Target, play};
pub use server::Server;

/// Why a replay cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A script or golden file cannot be read or written.
    #[error("{path}")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A script is malformed.
    #[error("line {line}: {why}")]
    Script {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A request cannot be sent, or its answer not be read.
    #[error("{request}: {why}")]
    Request {
        /// The request's name.
        request: String,
        /// Why.
        why: String,
    },
    /// A server cannot be reached the way its configuration says.
    #[error("connect")]
    Connect(#[from] copepod_client::ClientError),
    /// A server cannot be started.
    #[error("start a server")]
    Start(#[from] copepod_testkit::TestkitError),
}
