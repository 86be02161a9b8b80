//! Exponential back-off by key, with upstream's reset rule. Pure: the time is passed in.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// One set of back-offs.
#[derive(Debug)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    entries: HashMap<String, Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    delay: Duration,
    last: Instant,
}

impl Backoff {
    /// Starts at `base` and doubles up to `max`.
    #[must_use]
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, entries: HashMap::new() }
    }

    /// The delay in force for `key`, zero when none.
    #[must_use]
    pub fn delay(&self, key: &str) -> Duration {
        self.entries.get(key).map_or(Duration::ZERO, |e| e.delay)
    }

    /// How much of the delay is left when the last failure ended at `since`.
    #[must_use]
    pub fn remaining(&self, key: &str, since: Instant, now: Instant) -> Option<Duration> {
        let entry = self.entries.get(key)?;
        if self.expired(*entry, since) {
            return None;
        }
        entry.delay.checked_sub(now.saturating_duration_since(since)).filter(|d| !d.is_zero())
    }

    /// How much of the delay is left, counted from the last failure itself.
    #[must_use]
    pub fn remaining_of_last(&self, key: &str, now: Instant) -> Option<Duration> {
        let entry = self.entries.get(key)?;
        entry.delay.checked_sub(now.saturating_duration_since(entry.last)).filter(|d| !d.is_zero())
    }

    /// Notes another failure; doubles the delay, or starts anew after twice the longest delay
    /// without one.
    pub fn next(&mut self, key: &str, since: Instant, now: Instant) {
        let fresh = Entry { delay: self.base, last: now };
        let entry = match self.entries.get(key) {
            Some(e) if !self.expired(*e, since) => Entry { delay: (e.delay * 2).min(self.max), last: now },
            _ => fresh,
        };
        self.entries.insert(key.to_owned(), entry);
    }

    /// Whether `since` is so much later than the last failure that the delay no longer counts.
    fn expired(&self, entry: Entry, since: Instant) -> bool {
        since.saturating_duration_since(entry.last) > self.max * 2
    }

    /// Forgets `key`.
    pub fn reset(&mut self, key: &str) {
        self.entries.remove(key);
    }

    /// Forgets what has not failed for long.
    pub fn gc(&mut self, now: Instant) {
        let max = self.max;
        self.entries.retain(|_, e| now.saturating_duration_since(e.last) <= max * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn doubles_to_the_cap_and_resets_after_quiet() {
        let mut backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(300));
        let mut now = Instant::now();
        for expected in [10, 20, 40, 80, 160, 300, 300] {
            assert_eq!(backoff.remaining("k", now, now).is_some(), expected != 10);
            backoff.next("k", now, now);
            assert_eq!(backoff.delay("k"), Duration::from_secs(expected));
            now += Duration::from_secs(expected);
        }
        let later = now + Duration::from_secs(601);
        assert_eq!(backoff.remaining("k", later, later), None);
        backoff.next("k", later, later);
        assert_eq!(backoff.delay("k"), Duration::from_secs(10));
    }
}
