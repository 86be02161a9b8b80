//! The mirror of the store.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use parking_lot::RwLock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    backend::{Backend, Revision},
    entry::Entry,
    error::StoreError,
};

mod bucket;
mod list;
mod sync;
mod watcher;

pub use bucket::{Bucket, EventKind};
pub use list::{At, ListPage, ListRequest};
pub use watcher::{Delivery, Start, WatchRequest, Watcher};

/// The prefix of everything that is mirrored.
pub(crate) const ROOT: &str = "/registry/";

/// How long a read waits for a revision, as upstream's.
const PATIENCE: Duration = Duration::from_secs(3);

/// Which entries a list or watch wants; `None` is all.
pub type Filter = Option<Arc<dyn Fn(&Entry) -> bool + Send + Sync>>;

/// The mirror. All of it is behind an `Arc`; a task keeps it current until the token is cancelled.
pub struct Cache {
    backend: Arc<dyn Backend>,
    buckets: RwLock<HashMap<Box<str>, Arc<Bucket>>>,
    /// Complete up to here; 0 until the first fill.
    revision: watch::Sender<Revision>,
    /// The newest write through this server.
    written: AtomicI64,
    /// The newest compaction this server knows of.
    compacted: AtomicI64,
    /// Revision of the last full fill: the floor of buckets made later.
    filled: AtomicI64,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

impl Cache {
    /// A mirror of `backend`, filled and kept current by a task until `shutdown`. Returns at once: see
    /// [`Self::ready`].
    #[must_use]
    pub fn start(backend: Arc<dyn Backend>, shutdown: CancellationToken) -> Arc<Self> {
        let cache = Arc::new(Self {
            backend,
            buckets: RwLock::default(),
            revision: watch::Sender::new(0),
            written: AtomicI64::new(0),
            compacted: AtomicI64::new(0),
            filled: AtomicI64::new(0),
        });
        copepod_supervisor::spawn("watch-cache", sync::run(Arc::clone(&cache), shutdown));
        cache
    }

    /// The backend.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// The revision up to which the mirror is complete; 0 before it is filled.
    #[must_use]
    pub fn revision(&self) -> Revision {
        *self.revision.borrow()
    }

    /// Whether the mirror has been filled.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.revision() > 0
    }

    /// Waits until the mirror has been filled.
    pub async fn ready(&self) {
        // The sender lives as long as the cache.
        let _filled = self.revision.subscribe().wait_for(|revision| *revision > 0).await.is_ok();
    }

    /// Notes a write through this server: reads wait for it.
    pub fn note_written(&self, revision: Revision) {
        self.written.fetch_max(revision, Ordering::AcqRel);
    }

    /// Notes a compaction: older revisions are refused from now on.
    pub fn note_compacted(&self, revision: Revision) {
        self.compacted.fetch_max(revision, Ordering::AcqRel);
    }

    /// Waits until every write through this server so far is in the mirror; its revision then.
    ///
    /// # Errors
    /// [`StoreError::NotReady`] or [`StoreError::Behind`] after three seconds.
    pub async fn fresh(&self) -> Result<Revision, StoreError> {
        let wanted = self.written.load(Ordering::Acquire).max(1);
        let current = self.revision();
        if current >= wanted {
            return Ok(current);
        }
        match self.wait(wanted).await {
            Some(revision) => Ok(revision),
            None if self.revision() == 0 => Err(StoreError::NotReady),
            None => Err(StoreError::Behind { current: self.revision(), wanted }),
        }
    }

    /// Waits until the mirror has reached `revision`.
    pub(crate) async fn at_least(&self, revision: Revision) -> Result<Revision, StoreError> {
        match self.wait(revision.max(1)).await {
            Some(current) => Ok(current),
            None if self.revision() == 0 => Err(StoreError::NotReady),
            None => Err(StoreError::TooLarge(revision, self.revision())),
        }
    }

    async fn wait(&self, wanted: Revision) -> Option<Revision> {
        let mut moved = self.revision.subscribe();
        let reached = moved.wait_for(|revision| *revision >= wanted);
        let reached = tokio::time::timeout(PATIENCE, reached).await.ok()?.ok()?;
        Some(*reached)
    }

    /// The entry of a key as the mirror has it, or `None`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Arc<Entry>> {
        self.buckets.read().get(bucket_name(key))?.get(key)
    }

    /// The same after waiting for this server's own writes.
    ///
    /// # Errors
    /// As [`Self::fresh`].
    pub async fn get_fresh(&self, key: &str) -> Result<Option<Arc<Entry>>, StoreError> {
        self.fresh().await?;
        Ok(self.get(key))
    }

    /// The bucket that holds the keys of `prefix` (such as `/registry/pods/`), made when missing.
    #[must_use]
    pub fn bucket(&self, prefix: &str) -> Arc<Bucket> {
        let name = bucket_name(prefix);
        if let Some(bucket) = self.buckets.read().get(name) {
            return Arc::clone(bucket);
        }
        let mut buckets = self.buckets.write();
        let floor = self.filled.load(Ordering::Acquire);
        Arc::clone(buckets.entry(name.into()).or_insert_with(|| Arc::new(Bucket::new(floor))))
    }

    /// Bytes held by objects and history, with the number of objects.
    #[must_use]
    pub fn cost(&self) -> (usize, usize) {
        let buckets = self.buckets.read();
        buckets.values().map(|b| b.cost()).fold((0, 0), |sum, cost| (sum.0 + cost.0, sum.1 + cost.1))
    }
}

/// The part of a key that names its bucket: one path element below the root, or two for resources of dotted
/// groups and the two kinds below `services/`.
pub(crate) fn bucket_name(key: &str) -> &str {
    let Some(rest) = key.strip_prefix(ROOT) else { return key };
    let first = rest.find('/').unwrap_or(rest.len());
    let (head, tail) = rest.split_at(first);
    if head != "services" && !head.contains('.') {
        return head;
    }
    let second = tail.get(1..).and_then(|t| t.find('/')).map_or(rest.len(), |at| first + 1 + at);
    rest.get(..second).unwrap_or(rest)
}

#[cfg(test)]
mod tests;
