//! A queue of keys to look at: each key once, never by two workers at a time, failures later and later.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::metrics::QueueStats;

/// Shortest and longest back-off after failures of one key.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(300));

/// The queue; clones share it.
///
/// Invariants: a key is in `ready` at most once; a key that is being worked on is not in `ready` but is remembered in
/// `again` and comes back when its worker is done with it; first come, first served.
#[derive(Debug)]
pub struct WorkQueue<K> {
    inner: Arc<Inner<K>>,
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

#[derive(Debug)]
struct Inner<K> {
    state: Mutex<State<K>>,
    wake: Notify,
}

#[derive(Debug)]
struct State<K> {
    ready: VecDeque<K>,
    /// What is in `ready`, and since when.
    queued: HashMap<K, Instant>,
    working: HashSet<K>,
    again: HashSet<K>,
    /// Due time and a tie-breaker; a key may wait here more than once, the earliest wins.
    delayed: BTreeMap<(Instant, u64), K>,
    tickets: u64,
    failures: HashMap<K, u32>,
    closed: bool,
    /// Counters, once a worker has given the queue its name.
    stats: Option<Arc<QueueStats>>,
}

/// What a worker wants to become of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing until the next event.
    Done,
    /// Look again after this time.
    After(Duration),
    /// Look again with back-off, as after a failure.
    Retry,
}

impl<K: Clone + Eq + Hash + Debug> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Eq + Hash + Debug> WorkQueue<K> {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        let state = State {
            ready: VecDeque::new(),
            queued: HashMap::new(),
            working: HashSet::new(),
            again: HashSet::new(),
            delayed: BTreeMap::new(),
            tickets: 0,
            failures: HashMap::new(),
            closed: false,
            stats: None,
        };
        Self { inner: Arc::new(Inner { state: Mutex::new(state), wake: Notify::new() }) }
    }

    /// Puts a key in line, unless it is there already.
    pub fn add(&self, key: K) {
        if self.inner.state.lock().push(key) {
            self.inner.wake.notify_one();
        }
    }

    /// Puts a key in line after `delay`.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        let mut state = self.inner.state.lock();
        if state.closed {
            return;
        }
        state.tickets += 1;
        let ticket = state.tickets;
        state.delayed.insert((Instant::now() + delay, ticket), key);
        drop(state);
        self.inner.wake.notify_one();
    }

    /// Puts a key in line after its back-off, which doubles with every call until [`WorkQueue::forget`].
    pub fn add_rate_limited(&self, key: K) {
        let delay = {
            let mut state = self.inner.state.lock();
            let failures = state.failures.entry(key.clone()).or_insert(0);
            *failures += 1;
            let delay = backoff(*failures);
            if let Some(stats) = &state.stats {
                stats.retried();
            }
            delay
        };
        self.add_after(key, delay);
    }

    /// Clears a key's failures.
    pub fn forget(&self, key: &K) {
        self.inner.state.lock().failures.remove(key);
    }

    /// How often a key has failed in a row.
    #[must_use]
    pub fn failures(&self, key: &K) -> u32 {
        self.inner.state.lock().failures.get(key).copied().unwrap_or(0)
    }

    /// Keys that wait for a worker now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.state.lock().ready.len()
    }

    /// Whether no key waits for a worker now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the queue: nothing is accepted any more and workers get `None` once it is empty.
    pub fn shut_down(&self) {
        let mut state = self.inner.state.lock();
        state.closed = true;
        state.delayed.clear();
        drop(state);
        self.inner.wake.notify_waiters();
    }

    /// The next key. The caller owns it until it calls [`WorkQueue::done`].
    pub async fn next(&self) -> Option<K> {
        loop {
            let mut woken = std::pin::pin!(self.inner.wake.notified());
            woken.as_mut().enable();
            let due = {
                let mut state = self.inner.state.lock();
                state.promote(Instant::now());
                if let Some(key) = state.pop() {
                    let more = !state.ready.is_empty();
                    drop(state);
                    if more {
                        self.inner.wake.notify_one();
                    }
                    return Some(key);
                }
                if state.closed {
                    return None;
                }
                state.delayed.keys().next().map(|(at, _)| *at)
            };
            match due {
                Some(at) => {
                    tokio::select! { () = woken => {}, () = tokio::time::sleep_until(at) => {} }
                }
                None => woken.await,
            }
        }
    }

    /// Gives a key back; it returns to the line if it was added meanwhile.
    pub fn done(&self, key: &K) {
        let mut state = self.inner.state.lock();
        state.working.remove(key);
        if state.again.remove(key) && state.push(key.clone()) {
            drop(state);
            self.inner.wake.notify_one();
        }
    }

    /// Gives the queue a name to be counted under.
    fn count_as(&self, name: &'static str) -> Arc<QueueStats> {
        let mut state = self.inner.state.lock();
        let waiting = state.ready.len();
        let stats = state.stats.get_or_insert_with(|| {
            let stats = QueueStats::named(name);
            (0..waiting).for_each(|_| stats.added());
            stats
        });
        Arc::clone(stats)
    }

    /// Takes keys and works on them one at a time until the queue is shut down. An error is logged and the key comes
    /// back after its back-off.
    pub async fn work<F, R, E>(&self, what: &'static str, mut work: F)
    where
        F: FnMut(K) -> R,
        R: Future<Output = Result<Outcome, E>>,
        E: std::error::Error,
    {
        let stats = self.count_as(what);
        while let Some(key) = self.next().await {
            let begun = Instant::now();
            stats.begun(begun);
            let result = work(key.clone()).await;
            stats.done(begun);
            match result {
                Ok(Outcome::Done) => self.forget(&key),
                Ok(Outcome::After(delay)) => {
                    self.forget(&key);
                    self.add_after(key.clone(), delay);
                }
                Ok(Outcome::Retry) => self.add_rate_limited(key.clone()),
                Err(error) => {
                    let cause = crate::chain(&error);
                    tracing::debug!(what, ?key, error = cause, "failed, will try again");
                    self.add_rate_limited(key.clone());
                }
            }
            self.done(&key);
        }
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    /// Whether a worker should be woken.
    fn push(&mut self, key: K) -> bool {
        if self.closed {
            return false;
        }
        if self.working.contains(&key) {
            self.again.insert(key);
            return false;
        }
        if self.queued.contains_key(&key) {
            return false;
        }
        self.queued.insert(key.clone(), Instant::now());
        self.ready.push_back(key);
        if let Some(stats) = &self.stats {
            stats.added();
        }
        true
    }

    fn pop(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        if let (Some(since), Some(stats)) = (self.queued.remove(&key), &self.stats) {
            stats.taken(since);
        }
        self.working.insert(key.clone());
        Some(key)
    }

    fn promote(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let key = entry.remove();
            self.push(key);
        }
    }
}

/// Doubles per failure, with up to a tenth added so that keys that failed together do not come back together.
fn backoff(failures: u32) -> Duration {
    let base = BACKOFF.0.saturating_mul(1_u32 << failures.saturating_sub(1).min(20)).min(BACKOFF.1);
    base + base.mul_f64(rand::random_range(0.0..0.1))
}

#[cfg(test)]
mod tests;
