//! The revisioned store below the API server: etcd, and a mirror of it in memory.
//!
//! # Data flow
//! [`Backend`] is the port to a multi-version key-value store ([`EtcdBackend`], or [`MemoryBackend`] in tests).
//! [`Cache`] mirrors everything below `/registry/` from one watch of it: per resource a [`Bucket`] with the
//! current objects and a history of changes. Reads and watches are answered from the mirror; writes go to
//! the backend with a compare on the key's revision and come back through the watch. A write notes its revision
//! ([`Cache::note_written`]), and every read that must be fresh waits until the mirror has reached it.
//!
//! # Invariants
//! - One revision line: the mirror's revision only moves after every change up to it is in its bucket, so what
//!   is read under a bucket's lock after loading the revision is complete up to that revision.
//! - A bucket's history has a floor of its own: churn of one resource never evicts another's.
//! - Memory grows with objects, not with watchers: a watcher is a cursor into the history.
//! - A cached object is its encoded bytes plus a few offsets ([`Entry`]); the resource version is not stored but
//!   spliced in when the object is written out.
//! - Stored values are JSON now. A leading `k8s\0` marks protobuf, `k8s:enc:` encryption; both are recognised and
//!   reported by [`Entry::problem`] instead of being misread.
//! - Revisions below the last compaction are refused, from the mirror's history as well: one floor for all.

mod backend;
mod cache;
mod compactor;
mod entry;
mod error;
mod etcd;
mod memory;
mod token;

pub use backend::{
    Backend, Batch, BatchStream, Cas, Change, KeyValue, Page, RangeRequest, Revision, prefix_end,
};
pub use cache::{
    At, Bucket, Cache, Delivery, EventKind, Filter, ListPage, ListRequest, Start, WatchRequest, Watcher,
};
pub use compactor::{COMPACT_KEY, run as run_compactor};
pub use entry::{Entry, Labels};
pub use error::StoreError;
pub use etcd::{EtcdBackend, EtcdConfig, EtcdTls};
pub use memory::MemoryBackend;
pub use token::{ContinueToken, TokenError};
