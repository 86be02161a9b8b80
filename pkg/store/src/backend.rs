//! The port to a multi-version key-value store with etcd's semantics.

use std::time::Duration;

use bytes::Bytes;
use futures::{future::BoxFuture, stream::BoxStream};

use crate::error::StoreError;

/// A revision of the whole store; every write makes a new one.
pub type Revision = i64;

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The full key.
    pub key: Box<str>,
    /// The stored bytes.
    pub value: Bytes,
    /// The revision of the last write to the key.
    pub revision: Revision,
}

/// What to read of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeRequest {
    /// First key.
    pub start: String,
    /// First key after the range.
    pub end: String,
    /// Most keys to return; 0 is all.
    pub limit: usize,
    /// The revision to read at; 0 is the newest.
    pub revision: Revision,
}

/// A part of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The keys in order.
    pub items: Vec<KeyValue>,
    /// Whether the range goes on.
    pub more: bool,
    /// All keys of the range from its start, returned or not.
    pub count: usize,
    /// The store's revision when it was read.
    pub revision: Revision,
}

/// The outcome of a conditional write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cas {
    /// Written at this revision.
    Done(Revision),
    /// The condition did not hold; the key as it is.
    Conflict(Option<KeyValue>),
}

/// One change of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The full key.
    pub key: Box<str>,
    /// The new value; `None` when deleted.
    pub value: Option<Bytes>,
    /// The revision of the change.
    pub revision: Revision,
}

/// Changes in the order of their revisions; none at all is a sign of progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Everything up to here has been delivered.
    pub revision: Revision,
    /// The changes.
    pub changes: Vec<Change>,
}

/// A stream of changes; ends after an error.
pub type BatchStream = BoxStream<'static, Result<Batch, StoreError>>;

/// A multi-version key-value store. All methods may be called from many tasks at once.
pub trait Backend: Send + Sync + 'static {
    /// The newest value of a key and the store's revision.
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(Option<KeyValue>, Revision), StoreError>>;

    /// A page of a range.
    ///
    /// Fails with [`StoreError::Compacted`] for a revision below the last compaction.
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Page, StoreError>>;

    /// Writes a key if its last revision is `expected` (0: if it does not exist), for `ttl` if given.
    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        expected: Revision,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, Result<Cas, StoreError>>;

    /// Deletes a key if its last revision is `expected`.
    fn delete<'a>(&'a self, key: &'a str, expected: Revision) -> BoxFuture<'a, Result<Cas, StoreError>>;

    /// All changes below `prefix` from revision `from` on, with signs of progress while there is none.
    fn watch<'a>(&'a self, prefix: &'a str, from: Revision)
    -> BoxFuture<'a, Result<BatchStream, StoreError>>;

    /// Forgets what was overwritten before `revision`.
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// The first key after all keys that start with `prefix`.
#[must_use]
pub fn prefix_end(prefix: &str) -> String {
    let mut bytes = prefix.as_bytes().to_vec();
    while let Some(last) = bytes.pop() {
        // Keys are ASCII paths, so that raising the last byte keeps them text.
        if last < 0x7f {
            bytes.push(last + 1);
            return String::from_utf8(bytes).unwrap_or_default();
        }
    }
    "\u{7f}".to_owned()
}

#[cfg(test)]
mod tests {
    use super::prefix_end;

    #[test]
    fn the_end_of_a_prefix_is_its_successor() {
        assert_eq!(prefix_end("/registry/"), "/registry0");
        assert!("/registry/zzz" < prefix_end("/registry/").as_str());
    }
}
