//! Pods that wait: for their turn, for their back-off to pass, or for something to change.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use copepod_client::ObjectKey;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::pod::Pod;

/// Upstream's back-off of a pod that could not be placed.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// A pod that nothing woke is tried again after this long.
const FORGOTTEN: Duration = Duration::from_secs(300);

/// Order of the line: priority, then age.
type Turn = (Reverse<i32>, Option<Timestamp>, ObjectKey);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In line.
    Active,
    /// In line after this moment.
    Backoff(Instant),
    /// Until something changes, at most until this moment.
    Parked(Instant),
    /// With the scheduling loop; whether something changed meanwhile.
    Working { changed: bool },
    /// Behind a scheduling gate.
    Gated,
}

#[derive(Debug)]
struct Waiting {
    pod: Arc<Pod>,
    place: Place,
    attempts: u32,
}

#[derive(Debug, Default)]
struct State {
    pods: HashMap<ObjectKey, Waiting>,
    line: BTreeMap<Turn, ()>,
    closed: bool,
}

/// The queue of pods to place.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
    wake: Notify,
}

fn turn(pod: &Pod) -> Turn {
    (Reverse(pod.priority), pod.created, pod.key.clone())
}

fn backoff(attempts: u32) -> Duration {
    BACKOFF.0.saturating_mul(1_u32 << attempts.saturating_sub(1).min(10)).min(BACKOFF.1)
}

impl Queue {
    /// Takes a new pod, or a pod's new state.
    pub fn put(&self, pod: Arc<Pod>) {
        let mut state = self.state.lock();
        let gated = !pod.gates.is_empty();
        let known = state.pods.get_mut(&pod.key).filter(|w| w.pod.uid == pod.uid);
        if let Some(waiting) = known {
            let (old_turn, old) = (turn(&waiting.pod), waiting.place);
            let relevant = changed(&waiting.pod, &pod);
            waiting.pod = Arc::clone(&pod);
            waiting.place = match (old, gated) {
                (Place::Working { changed }, _) => Place::Working { changed: changed || relevant },
                (_, true) => Place::Gated,
                (Place::Gated, false) => Place::Active,
                (Place::Parked(_), false) if relevant => Place::Active,
                (place, false) => place,
            };
            let now_active = waiting.place == Place::Active;
            state.line.remove(&old_turn);
            if now_active {
                state.line.insert(turn(&pod), ());
            }
        } else {
            let place = if gated { Place::Gated } else { Place::Active };
            if !gated {
                state.line.insert(turn(&pod), ());
            }
            state.pods.insert(pod.key.clone(), Waiting { pod, place, attempts: 0 });
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Forgets a pod: it is gone or placed.
    pub fn remove(&self, key: &ObjectKey) {
        let mut state = self.state.lock();
        if let Some(waiting) = state.pods.remove(key) {
            state.line.remove(&turn(&waiting.pod));
        }
    }

    /// The next pod to place; `None` after [`Queue::close`].
    pub async fn next(&self) -> Option<Arc<Pod>> {
        loop {
            let mut woken = std::pin::pin!(self.wake.notified());
            woken.as_mut().enable();
            let due = {
                let mut state = self.state.lock();
                if state.closed {
                    return None;
                }
                let due = state.promote(Instant::now());
                if let Some(((_, _, key), ())) = state.line.pop_first()
                    && let Some(waiting) = state.pods.get_mut(&key)
                {
                    waiting.place = Place::Working { changed: false };
                    waiting.attempts += 1;
                    return Some(Arc::clone(&waiting.pod));
                }
                due
            };
            match due {
                Some(at) => {
                    tokio::select! { () = woken => {}, () = tokio::time::sleep_until(at) => {} }
                }
                None => woken.await,
            }
        }
    }

    /// Gives back a pod that found no node. It waits for a change, or only for its back-off if one came meanwhile.
    pub fn park(&self, key: &ObjectKey) {
        self.give_back(key, false);
    }

    /// Gives back a pod whose attempt failed for a reason of ours, such as an answer of the API server.
    pub fn retry(&self, key: &ObjectKey) {
        self.give_back(key, true);
    }

    fn give_back(&self, key: &ObjectKey, again: bool) {
        let mut state = self.state.lock();
        if let Some(waiting) = state.pods.get_mut(key)
            && let Place::Working { changed } = waiting.place
        {
            let now = Instant::now();
            waiting.place = if again || changed {
                Place::Backoff(now + backoff(waiting.attempts))
            } else {
                Place::Parked(now + FORGOTTEN)
            };
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Something changed that may help: parked pods come back, after what is left of their back-off.
    pub fn stir(&self) {
        let now = Instant::now();
        let mut state = self.state.lock();
        for waiting in state.pods.values_mut() {
            match waiting.place {
                Place::Parked(until) => {
                    let since = until - FORGOTTEN;
                    waiting.place = Place::Backoff((since + backoff(waiting.attempts)).max(now));
                }
                Place::Working { .. } => waiting.place = Place::Working { changed: true },
                _ => {}
            }
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Ends [`Queue::next`].
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.wake.notify_waiters();
    }

    /// Pods that wait with a node nominated for them.
    #[must_use]
    pub fn nominated(&self) -> Vec<(Box<str>, Arc<Pod>)> {
        let state = self.state.lock();
        let pods = state.pods.values().filter(|w| !w.pod.nominated_node.is_empty());
        pods.map(|w| (w.pod.nominated_node.clone(), Arc::clone(&w.pod))).collect()
    }

    /// How many pods wait: in line, in back-off, parked, gated. For metrics.
    #[must_use]
    pub fn counts(&self) -> [usize; 4] {
        let mut counts = [0; 4];
        for waiting in self.state.lock().pods.values() {
            let at = match waiting.place {
                Place::Active | Place::Working { .. } => 0,
                Place::Backoff(_) => 1,
                Place::Parked(_) => 2,
                Place::Gated => 3,
            };
            counts[at] += 1;
        }
        counts
    }
}

impl State {
    /// Moves what is due into the line and returns when the next is.
    fn promote(&mut self, now: Instant) -> Option<Instant> {
        let mut next = None;
        for waiting in self.pods.values_mut() {
            let (Place::Backoff(at) | Place::Parked(at)) = waiting.place else { continue };
            if at <= now {
                waiting.place = Place::Active;
                self.line.insert(turn(&waiting.pod), ());
            } else if next.is_none_or(|n| at < n) {
                next = Some(at);
            }
        }
        next
    }
}

/// Whether an update can make a difference to where the pod fits.
fn changed(old: &Pod, new: &Pod) -> bool {
    old.gates != new.gates
        || old.labels != new.labels
        || old.requests != new.requests
        || old.tolerations.len() != new.tolerations.len()
        || old.deleting != new.deleting
        || old.devices != new.devices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, priority: i32) -> Arc<Pod> {
        Arc::new(Pod { key: ObjectKey::new("ns", name), uid: name.into(), priority, ..Pod::default() })
    }

    async fn name(queue: &Queue) -> String {
        tokio::time::timeout(Duration::from_secs(3600), queue.next()).await.unwrap().unwrap().key.name.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn priority_goes_first_and_gates_hold() {
        let queue = Queue::default();
        queue.put(pod("low", 0));
        queue.put(pod("high", 9));
        let gated = Pod { gates: vec!["g".to_owned()], ..(*pod("gated", 99)).clone() };
        queue.put(Arc::new(gated));
        assert_eq!((name(&queue).await, name(&queue).await), ("high".to_owned(), "low".to_owned()));
        queue.put(pod("gated", 99));
        assert_eq!(name(&queue).await, "gated");
    }

    #[tokio::test(start_paused = true)]
    async fn parked_pods_come_back_on_a_change_after_their_back_off() {
        let queue = Queue::default();
        queue.put(pod("a", 0));
        let start = Instant::now();
        name(&queue).await;
        queue.park(&ObjectKey::new("ns", "a"));
        queue.stir();
        name(&queue).await;
        assert_eq!(start.elapsed().as_secs(), 1);
        queue.stir();
        queue.park(&ObjectKey::new("ns", "a"));
        name(&queue).await;
        assert_eq!(start.elapsed().as_secs(), 3, "a change during the attempt counts");
        queue.park(&ObjectKey::new("ns", "a"));
        name(&queue).await;
        assert_eq!(start.elapsed().as_secs(), 303, "nothing changed");
    }
}
