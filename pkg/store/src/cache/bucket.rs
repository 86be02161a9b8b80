//! One resource's objects and the history of their changes.

use std::{
    borrow::Borrow,
    cmp::Ordering,
    collections::{BTreeSet, VecDeque},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use parking_lot::RwLock;
use tokio::{sync::Notify, time::Instant};

use crate::{backend::Revision, entry::Entry};

/// Changes that are kept whatever their age, so that quiet resources can always be resumed.
const KEEP: usize = 64;
/// Changes younger than this are kept unless there are too many.
const FRESH: Duration = Duration::from_secs(90);
/// Most changes.
const MOST: usize = 8192;
/// Most bytes of changes.
const MOST_BYTES: usize = 8 << 20;

/// What happened to an object, from a watcher's view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// It is there now.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
    /// Nothing happened up to this revision.
    Bookmark,
}

impl EventKind {
    /// As watch events spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
        }
    }
}

/// One change in the history.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) revision: Revision,
    pub(super) before: Option<Arc<Entry>>,
    pub(super) after: Option<Arc<Entry>>,
    at: Instant,
}

impl Record {
    fn cost(&self) -> usize {
        // The entry after a change is the entry before the next one: each is counted once.
        self.before.as_ref().map_or(0, |entry| entry.cost()) + size_of::<Self>()
    }

    /// The key that changed.
    pub(super) fn key(&self) -> &str {
        self.after.as_ref().or(self.before.as_ref()).map_or("", |entry| entry.key())
    }
}

/// An entry ordered by its key.
#[derive(Debug, Clone)]
pub(super) struct ByKey(pub(super) Arc<Entry>);

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl Eq for ByKey {}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key().cmp(other.0.key())
    }
}

impl Borrow<str> for ByKey {
    fn borrow(&self) -> &str {
        self.0.key()
    }
}

/// Objects and history, under the bucket's lock.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) objects: BTreeSet<ByKey>,
    pub(super) history: VecDeque<Record>,
    /// Position of the first record since the bucket was made; never goes back.
    pub(super) base: u64,
    /// Changes up to here are no longer in the history.
    pub(super) floor: Revision,
    /// Revision of the last change.
    pub(super) last: Revision,
    bytes: usize,
    object_bytes: usize,
}

impl State {
    /// The entries below `prefix` from the key `start` on.
    pub(super) fn below<'a>(
        &'a self,
        prefix: &'a str,
        start: &str,
    ) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
        let range = self.objects.range::<str, _>((Bound::Included(start), Bound::Unbounded));
        range.map(|by_key| &by_key.0).take_while(move |entry| entry.key().starts_with(prefix))
    }

    /// The position after the newest record.
    pub(super) fn end(&self) -> u64 {
        self.base + self.history.len() as u64
    }

    /// The position of the first record above `revision`.
    pub(super) fn position(&self, revision: Revision) -> u64 {
        self.base + self.history.partition_point(|record| record.revision <= revision) as u64
    }

    /// The record at a position, if it is (still) there.
    pub(super) fn record(&self, position: u64) -> Option<&Record> {
        self.history.get(usize::try_from(position.checked_sub(self.base)?).ok()?)
    }

    fn put(&mut self, key: &str, after: Option<Arc<Entry>>) -> Option<Arc<Entry>> {
        let before = self.objects.take(key).map(|by_key| by_key.0);
        self.object_bytes -= before.as_ref().map_or(0, |entry| entry.cost());
        if let Some(entry) = after {
            self.object_bytes += entry.cost();
            self.objects.insert(ByKey(entry));
        }
        before
    }

    /// Drops what need not be kept.
    fn trim(&mut self, now: Instant) {
        while let Some(oldest) = self.history.front() {
            let crowded = self.history.len() > MOST || self.bytes > MOST_BYTES;
            let aged = self.history.len() > KEEP && now.duration_since(oldest.at) > FRESH;
            if !crowded && !aged {
                return;
            }
            self.bytes -= oldest.cost();
            self.floor = oldest.revision;
            self.base += 1;
            self.history.pop_front();
        }
    }
}

/// The objects of one resource.
#[derive(Debug)]
pub struct Bucket {
    pub(super) state: RwLock<State>,
    pub(super) changed: Notify,
}

impl Bucket {
    pub(super) fn new(floor: Revision) -> Self {
        Self { state: RwLock::new(State { floor, last: floor, ..State::default() }), changed: Notify::new() }
    }

    /// The entry of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Arc<Entry>> {
        self.state.read().objects.get(key).map(|by_key| Arc::clone(&by_key.0))
    }

    /// All entries whose key starts with `prefix`, in the order of their keys.
    #[must_use]
    pub fn entries(&self, prefix: &str) -> Vec<Arc<Entry>> {
        self.state.read().below(prefix, prefix).cloned().collect()
    }

    /// Revision of the last change (or fill): the same number, the same objects.
    #[must_use]
    pub fn last(&self) -> Revision {
        self.state.read().last
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.read().objects.len()
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits for the next change after the call, whenever the future is polled first.
    pub fn changed(&self) -> impl Future<Output = ()> + Send + use<'_> {
        // Made here, not in an async block: it counts changes from now on.
        self.changed.notified()
    }

    /// Records a change. `after` is `None` for a deletion.
    pub(super) fn apply(&self, key: &str, after: Option<Arc<Entry>>, revision: Revision) {
        let mut state = self.state.write();
        let before = state.put(key, after.clone());
        if before.is_none() && after.is_none() {
            return;
        }
        let record = Record { revision, before, after, at: Instant::now() };
        state.bytes += record.cost();
        state.last = revision;
        let now = record.at;
        state.history.push_back(record);
        state.trim(now);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Replaces everything after the history was lost: watchers are ended, the floor is `revision`.
    pub(super) fn refill(&self, entries: Vec<Arc<Entry>>, revision: Revision) {
        let mut state = self.state.write();
        state.object_bytes = entries.iter().map(|entry| entry.cost()).sum();
        state.objects = entries.into_iter().map(ByKey).collect();
        // One position is skipped so that a watcher at the very end notices as well.
        state.base = state.end() + 1;
        state.history.clear();
        state.bytes = 0;
        state.floor = revision;
        state.last = revision;
        drop(state);
        self.changed.notify_waiters();
    }

    /// Drops aged history; called now and then for buckets without changes.
    pub(super) fn sweep(&self, now: Instant) {
        self.state.write().trim(now);
    }

    pub(super) fn cost(&self) -> (usize, usize) {
        let state = self.state.read();
        (state.bytes + state.object_bytes, state.objects.len())
    }
}
