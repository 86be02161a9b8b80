//! Where pods come from, and the mux that turns full sets into updates.
//!
//! A source sends the full set of its pods whenever it changed ([`SourceUpdate`]). The mux
//! remembers what each source last said and emits only differences, so that a worker is woken
//! once per real change, and knows which sources have spoken at least once.

pub mod api;
pub mod file;
pub mod mux;

use crate::types::PodRef;

/// The sources a pod can come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The manifest directory.
    File,
    /// The API server.
    Api,
}

impl Source {
    /// The word in the annotation `kubernetes.io/config.source`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Api => "api",
        }
    }
}

/// The full set of one source's pods.
#[derive(Debug, Clone)]
pub struct SourceUpdate {
    /// Who speaks.
    pub source: Source,
    /// All its pods.
    pub pods: Vec<PodRef>,
}
