//! What can go wrong below the API.

use crate::backend::Revision;

/// An error of the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The revision is older than the last compaction.
    #[error("revision {0} has been compacted")]
    Compacted(Revision),
    /// A watch starts below the history that is kept; the second number is the floor.
    #[error("too old resource version: {0} ({1})")]
    TooOld(Revision, Revision),
    /// A revision that does not exist yet and did not come in time; the second number is the current one.
    #[error("Too large resource version: {0}, current: {1}")]
    TooLarge(Revision, Revision),
    /// The mirror did not catch up with this server's own writes in time.
    #[error("the watch cache is behind: at {current}, wanted {wanted}")]
    Behind {
        /// Where it is.
        current: Revision,
        /// Where it should be.
        wanted: Revision,
    },
    /// The mirror has not been filled yet.
    #[error("the watch cache is not initialised yet")]
    NotReady,
    /// The backend could not be reached or refused.
    #[error("etcd: {0}")]
    Backend(String),
    /// The backend does not take a request of this size.
    #[error("etcd: the request is too large")]
    RequestTooLarge,
}
