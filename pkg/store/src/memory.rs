//! The backend in memory: etcd's semantics for tests, with every old revision until compaction.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use tokio::sync::watch;

use crate::{
    backend::{Backend, Batch, BatchStream, Cas, Change, KeyValue, Page, RangeRequest, Revision},
    error::StoreError,
};

/// Versions of one key: the value, or `None` when deleted, from a revision on.
type Versions = Vec<(Revision, Option<Bytes>)>;

#[derive(Debug, Default)]
struct State {
    keys: BTreeMap<Box<str>, Versions>,
    log: Vec<Change>,
    revision: Revision,
    compacted: Revision,
    /// Raised to end all watches.
    cut: u64,
}

impl State {
    fn current(&self, key: &str) -> Option<KeyValue> {
        let (revision, value) = self.keys.get(key)?.last()?;
        Some(KeyValue { key: key.into(), value: value.clone()?, revision: *revision })
    }

    fn write(&mut self, key: &str, value: Option<Bytes>) -> Revision {
        self.revision += 1;
        let revision = self.revision;
        self.keys.entry(key.into()).or_default().push((revision, value.clone()));
        self.log.push(Change { key: key.into(), value, revision });
        revision
    }

    fn at(&self, key: &str, versions: &Versions, revision: Revision) -> Option<KeyValue> {
        let (written, value) = versions.iter().rev().find(|(r, _)| *r <= revision)?;
        Some(KeyValue { key: key.into(), value: value.clone()?, revision: *written })
    }
}

/// A store in memory. Clones share it. Times to live are not kept: keys stay.
#[derive(Debug, Clone)]
pub struct MemoryBackend {
    state: Arc<Mutex<State>>,
    moved: watch::Sender<Revision>,
}

impl Default for MemoryBackend {
    fn default() -> Self {
        let state = State { revision: 1, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), moved: watch::Sender::new(1) }
    }
}

impl MemoryBackend {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every watch with an error, as a lost connection does.
    pub fn cut(&self) {
        self.lock().cut += 1;
        self.moved.send_modify(|_| ());
    }

    fn conditional(&self, key: &str, expected: Revision, value: Option<Bytes>) -> Cas {
        let mut state = self.lock();
        let current = state.current(key);
        if current.as_ref().map_or(0, |kv| kv.revision) != expected {
            return Cas::Conflict(current);
        }
        let revision = state.write(key, value);
        drop(state);
        self.moved.send_replace(revision);
        Cas::Done(revision)
    }

    fn page(&self, request: &RangeRequest) -> Result<Page, StoreError> {
        let state = self.lock();
        let at = if request.revision == 0 { state.revision } else { request.revision };
        if at < state.compacted {
            return Err(StoreError::Compacted(at));
        }
        if at > state.revision {
            return Err(StoreError::TooLarge(at, state.revision));
        }
        let range: (Bound<&str>, Bound<&str>) =
            (Bound::Included(&request.start), Bound::Excluded(&request.end));
        let all: Vec<KeyValue> =
            state.keys.range::<str, _>(range).filter_map(|(key, v)| state.at(key, v, at)).collect();
        let count = all.len();
        let limit = if request.limit == 0 { count } else { request.limit };
        let items: Vec<KeyValue> = all.into_iter().take(limit).collect();
        Ok(Page { more: items.len() < count, items, count, revision: state.revision })
    }

    /// Changes from `from` on, at most one batch.
    fn batch(&self, prefix: &str, from: Revision, cut: u64) -> Option<Result<Batch, StoreError>> {
        let state = self.lock();
        if state.cut != cut {
            return Some(Err(StoreError::Backend("the watch was cut".to_owned())));
        }
        if state.revision < from {
            return None;
        }
        let start = state.log.partition_point(|change| change.revision < from);
        let changes = state.log.iter().skip(start).filter(|c| c.key.starts_with(prefix)).cloned().collect();
        Some(Ok(Batch { revision: state.revision, changes }))
    }
}

/// Where a watch stands.
struct Cursor {
    backend: MemoryBackend,
    moved: watch::Receiver<Revision>,
    prefix: String,
    next: Revision,
    cut: u64,
    ended: bool,
}

async fn next_batch(mut cursor: Cursor) -> Option<(Result<Batch, StoreError>, Cursor)> {
    while !cursor.ended {
        cursor.moved.borrow_and_update();
        if let Some(batch) = cursor.backend.batch(&cursor.prefix, cursor.next, cursor.cut) {
            match &batch {
                Ok(batch) => cursor.next = batch.revision + 1,
                Err(_) => cursor.ended = true,
            }
            return Some((batch, cursor));
        }
        cursor.moved.changed().await.ok()?;
    }
    None
}

impl Backend for MemoryBackend {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(Option<KeyValue>, Revision), StoreError>> {
        async move {
            let state = self.lock();
            Ok((state.current(key), state.revision))
        }
        .boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Page, StoreError>> {
        async move { self.page(&request) }.boxed()
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        expected: Revision,
        _ttl: Option<Duration>,
    ) -> BoxFuture<'a, Result<Cas, StoreError>> {
        async move { Ok(self.conditional(key, expected, Some(value))) }.boxed()
    }

    fn delete<'a>(&'a self, key: &'a str, expected: Revision) -> BoxFuture<'a, Result<Cas, StoreError>> {
        async move {
            if expected == 0 {
                return Ok(Cas::Conflict(self.lock().current(key)));
            }
            Ok(self.conditional(key, expected, None))
        }
        .boxed()
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        from: Revision,
    ) -> BoxFuture<'a, Result<BatchStream, StoreError>> {
        async move {
            let (compacted, cut) = {
                let state = self.lock();
                (state.compacted, state.cut)
            };
            if from <= compacted {
                return Err(StoreError::Compacted(from));
            }
            let cursor = Cursor {
                backend: self.clone(),
                moved: self.moved.subscribe(),
                prefix: prefix.to_owned(),
                next: from,
                cut,
                ended: false,
            };
            Ok(stream::unfold(cursor, next_batch).boxed())
        }
        .boxed()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let mut state = self.lock();
            if revision <= state.compacted {
                return Err(StoreError::Compacted(revision));
            }
            state.compacted = revision.min(state.revision);
            let floor = state.compacted;
            for versions in state.keys.values_mut() {
                let keep = versions.iter().rposition(|(r, _)| *r <= floor).unwrap_or(0);
                versions.drain(..keep);
            }
            state.log.retain(|change| change.revision > floor);
            Ok(())
        }
        .boxed()
    }
}
