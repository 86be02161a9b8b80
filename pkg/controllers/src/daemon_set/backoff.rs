//! Failed pods are replaced at once the first time, and later and later when they go on failing.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::State;

/// First and longest pause; upstream's figures.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15 * 60));

/// UID of the set, hash of its revision, node.
type Id = (String, String, String);

/// Pauses by set, revision and node.
#[derive(Debug, Default)]
pub(super) struct Backoffs(Mutex<HashMap<Id, (Duration, Instant)>>);

impl Backoffs {
    /// Marks the nodes of `state` on which a failed pod is left for now; how long until the first of them is due.
    pub(super) fn hold(&self, state: &mut State<'_>) -> Option<Duration> {
        let now = Instant::now();
        let mut pauses = self.0.lock();
        pauses.retain(|_, (_, since)| now.duration_since(*since) < PAUSES.1 * 2);
        let mut next: Option<Duration> = None;
        let failed = state
            .pods
            .iter()
            .filter(|(_, pods)| pods.iter().any(|p| &*p.status.phase == "Failed" && !p.metadata.deleting()));
        let nodes: Vec<String> = failed.map(|(node, _)| node.clone()).collect();
        for node in nodes {
            let id = (state.set.metadata.uid.clone(), state.hash.clone(), node.clone());
            let known = pauses.get(&id).copied();
            let left = known
                .map_or(Duration::ZERO, |(pause, since)| pause.saturating_sub(now.duration_since(since)));
            if left.is_zero() {
                let pause = known.map_or(PAUSES.0, |(pause, _)| (pause * 2).min(PAUSES.1));
                pauses.insert(id, (pause, now));
            } else {
                next = Some(next.map_or(left, |next| next.min(left)));
                state.held.insert(node);
            }
        }
        next
    }
}
