//! A watcher: a cursor into one bucket's history.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Bucket, Cache, EventKind, Filter,
    bucket::{Record, State},
};
use crate::{backend::Revision, entry::Entry, error::StoreError};

/// Between two bookmarks.
const BOOKMARK: Duration = Duration::from_secs(60);

/// Where a watch starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the objects there are, as ADDED.
    Current,
    /// With the objects there are at this revision or later; a bookmark marks their end.
    List(Revision),
    /// With the first change after this revision.
    After(Revision),
}

/// What to watch.
pub struct WatchRequest {
    /// Prefix of the keys; ends with a slash.
    pub prefix: String,
    /// Where to start.
    pub start: Start,
    /// Which objects; an object that comes to match is ADDED, one that ceases to is DELETED.
    pub filter: Filter,
    /// Whether bookmarks are wanted.
    pub bookmarks: bool,
}

impl std::fmt::Debug for WatchRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchRequest")
            .field("prefix", &self.prefix)
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}

/// One event for a watcher.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// What happened.
    pub kind: EventKind,
    /// The object; for a deletion its last state; `None` for a bookmark.
    pub entry: Option<Arc<Entry>>,
    /// The object as it was before a modification.
    pub before: Option<Arc<Entry>>,
    /// The object's resource version in this event (a deletion has the deletion's).
    pub revision: Revision,
    /// Whether this bookmark ends the initial list.
    pub initial_end: bool,
}

/// A running watch. [`next`](Self::next) may be dropped and called again at any time.
pub struct Watcher {
    cache: Arc<Cache>,
    bucket: Arc<Bucket>,
    request: WatchRequest,
    /// Position of the next record to look at.
    cursor: u64,
    /// Records up to here are before the start.
    after: Revision,
    initial: VecDeque<Arc<Entry>>,
    /// The bookmark that ends the initial list, until it is sent.
    initial_end: Option<Revision>,
    next_bookmark: Instant,
    bookmarked: Revision,
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher")
            .field("request", &self.request)
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}

impl Cache {
    /// Starts a watch.
    ///
    /// # Errors
    /// [`StoreError::TooOld`] when the start is below the history.
    pub async fn watch(self: &Arc<Self>, request: WatchRequest) -> Result<Watcher, StoreError> {
        match request.start {
            Start::Current => self.at_least(1).await?,
            Start::List(0) => self.fresh().await?,
            Start::List(revision) => self.at_least(revision).await?,
            Start::After(_) => self.at_least(1).await?,
        };
        let bucket = self.bucket(&request.prefix);
        let revision = self.revision();
        let (cursor, initial, after) = {
            let state = bucket.state.read();
            match request.start {
                Start::After(start) => {
                    if start < state.floor {
                        return Err(StoreError::TooOld(start, state.floor));
                    }
                    (state.position(start), VecDeque::new(), start)
                }
                Start::Current | Start::List(_) => {
                    (state.end(), snapshot(&state, &request), state.last.max(revision))
                }
            }
        };
        let initial_end = matches!(request.start, Start::List(_)).then_some(after);
        Ok(Watcher {
            cache: Arc::clone(self),
            bucket,
            request,
            cursor,
            after,
            initial,
            initial_end,
            next_bookmark: Instant::now() + BOOKMARK,
            bookmarked: after,
        })
    }
}

fn snapshot(state: &State, request: &WatchRequest) -> VecDeque<Arc<Entry>> {
    state
        .below(&request.prefix, &request.prefix)
        .filter(|entry| request.filter.as_ref().is_none_or(|wanted| wanted(entry)))
        .cloned()
        .collect()
}

/// What a look at the history found.
enum Found {
    Event(Delivery),
    /// Nothing more up to this revision.
    Nothing(Revision),
    Lost(StoreError),
}

impl Watcher {
    /// The next event. After an error the watch is over.
    ///
    /// # Errors
    /// [`StoreError::TooOld`] when the watcher fell behind the history, or the history was lost.
    pub async fn next(&mut self) -> Result<Delivery, StoreError> {
        if let Some(entry) = self.initial.pop_front() {
            let revision = entry.revision();
            return Ok(Delivery {
                kind: EventKind::Added,
                entry: Some(entry),
                before: None,
                revision,
                initial_end: false,
            });
        }
        // The end of what was there is told by a bookmark, to who wants bookmarks.
        if let Some(revision) = self.initial_end.take().filter(|_| self.request.bookmarks) {
            return Ok(Delivery {
                kind: EventKind::Bookmark,
                entry: None,
                before: None,
                revision,
                initial_end: true,
            });
        }
        loop {
            let bucket = Arc::clone(&self.bucket);
            let changed = bucket.changed.notified();
            tokio::pin!(changed);
            // Registered before looking, so that no change falls between.
            changed.as_mut().enable();
            let through = match self.look() {
                Found::Event(event) => return Ok(event),
                Found::Lost(error) => return Err(error),
                Found::Nothing(revision) => revision,
            };
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(self.next_bookmark), if self.request.bookmarks => {
                    self.next_bookmark = Instant::now() + BOOKMARK;
                    if let Some(bookmark) = self.bookmark(through) {
                        return Ok(bookmark);
                    }
                }
            }
        }
    }

    /// An event that is there already, if any: lets a writer fill its buffer before it flushes.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn try_next(&mut self) -> Result<Option<Delivery>, StoreError> {
        if !self.initial.is_empty() || self.initial_end.is_some() {
            return Ok(None);
        }
        match self.look() {
            Found::Event(event) => Ok(Some(event)),
            Found::Lost(error) => Err(error),
            Found::Nothing(_) => Ok(None),
        }
    }

    /// A bookmark at the newest revision, when all changes up to it have been delivered.
    #[must_use]
    pub fn bookmark_now(&mut self) -> Option<Delivery> {
        if !self.initial.is_empty() || self.initial_end.is_some() {
            return None;
        }
        let through = self.through()?;
        self.bookmark(through)
    }

    fn through(&self) -> Option<Revision> {
        let revision = self.cache.revision();
        (self.bucket.state.read().end() == self.cursor).then_some(revision)
    }

    fn bookmark(&mut self, seen: Revision) -> Option<Delivery> {
        let revision = self.through().unwrap_or(0).max(seen);
        if revision <= self.bookmarked {
            return None;
        }
        self.bookmarked = revision;
        Some(Delivery { kind: EventKind::Bookmark, entry: None, before: None, revision, initial_end: false })
    }

    fn look(&mut self) -> Found {
        // Before the lock: all changes up to this revision are in the bucket.
        let revision = self.cache.revision();
        let state = self.bucket.state.read();
        if self.cursor < state.base {
            return Found::Lost(StoreError::TooOld(self.after, state.floor));
        }
        while let Some(record) = state.record(self.cursor) {
            self.cursor += 1;
            if record.revision <= self.after {
                continue;
            }
            if let Some(event) = self.translate(record) {
                self.bookmarked = self.bookmarked.max(record.revision);
                return Found::Event(event);
            }
        }
        Found::Nothing(revision)
    }

    /// What a change means to this watcher.
    fn translate(&self, record: &Record) -> Option<Delivery> {
        let wanted = |entry: &&Arc<Entry>| {
            entry.key().starts_with(&self.request.prefix)
                && self.request.filter.as_ref().is_none_or(|filter| filter(entry))
        };
        let before = record.before.as_ref().filter(wanted);
        let after = record.after.as_ref().filter(wanted);
        let (kind, entry) = match (before, after) {
            (None, None) => return None,
            (None, Some(after)) => (EventKind::Added, after),
            (Some(_), Some(after)) => (EventKind::Modified, after),
            // A deleted object, and one that ceases to match, is shown as it was before.
            (Some(before), None) => (EventKind::Deleted, before),
        };
        let before = before.filter(|_| kind == EventKind::Modified).map(Arc::clone);
        let entry = Some(Arc::clone(entry));
        Some(Delivery { kind, entry, before, revision: record.revision, initial_end: false })
    }
}
