//! How often a pod that cannot go on is tried again, and how often that is told.
//!
//! Tries come at growing intervals up to upstream's ten seconds; the event about a volume that is not ready is told at
//! doubling intervals, as upstream's own tries come. Events of one pod are few in all: repeating one would drown the rest.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The first pause, and the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(10);
/// The first and the longest interval between two events about one pod's volumes.
const TOLD_FIRST: Duration = Duration::from_millis(500);
const TOLD_LONGEST: Duration = Duration::from_secs(122);

#[derive(Debug, Clone, Copy)]
struct Setback {
    pause: Duration,
    told: Option<(Instant, Duration)>,
}

/// The setbacks of all pods.
#[derive(Debug, Default)]
pub(super) struct Setbacks(Mutex<HashMap<String, Setback>>);

impl Setbacks {
    /// Another try failed: when to try again.
    pub(super) fn failed(&self, uid: &str) -> Duration {
        let mut all = self.0.lock();
        let fresh = Setback { pause: FIRST, told: None };
        let setback = all.entry(uid.to_owned()).or_insert(fresh);
        setback.pause = (setback.pause * 2).min(LONGEST);
        setback.pause
    }

    /// Whether the event about this failure is due.
    pub(super) fn tells(&self, uid: &str, now: Instant) -> bool {
        let mut all = self.0.lock();
        let setback = all.entry(uid.to_owned()).or_insert(Setback { pause: FIRST, told: None });
        let interval = match setback.told {
            None => TOLD_FIRST,
            Some((last, interval)) if now.saturating_duration_since(last) >= interval => {
                (interval * 2).min(TOLD_LONGEST)
            }
            Some(_) => return false,
        };
        setback.told = Some((now, interval));
        true
    }

    /// The pod goes on, or is gone.
    pub(super) fn over(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pauses_grow_and_events_become_rare() {
        let all = Setbacks::default();
        let pauses: Vec<_> = (0..5).map(|_| all.failed("u").as_secs()).collect();
        assert_eq!(pauses, [2, 4, 8, 10, 10]);
        let start = Instant::now();
        let told =
            (0..600).filter(|tenths| all.tells("u", start + Duration::from_millis(tenths * 100))).count();
        assert_eq!(told, 7, "0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5 seconds");
        all.over("u");
        assert_eq!(all.failed("u").as_secs(), 2);
    }
}
