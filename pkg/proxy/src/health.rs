//! Whether the proxy keeps up: a change that waits too long means it does not.

use std::time::Duration;

use copepod_sys::clock;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

#[derive(Debug)]
struct State {
    last_updated: Option<Timestamp>,
    /// Since when a change has been waiting.
    waiting_since: Option<Instant>,
    node_eligible: bool,
}

/// The proxy's health, shared between its loop and its servers.
#[derive(Debug)]
pub(crate) struct Health {
    timeout: Duration,
    state: Mutex<State>,
}

impl Health {
    /// Nothing has been synced yet: not healthy before the first success.
    pub(crate) fn new(timeout: Duration) -> Self {
        let state = State { last_updated: None, waiting_since: None, node_eligible: true };
        Self { timeout, state: Mutex::new(state) }
    }

    /// A change is queued.
    pub(crate) fn queued(&self) {
        self.state.lock().waiting_since.get_or_insert_with(Instant::now);
    }

    /// Everything queued is in the kernel.
    pub(crate) fn synced(&self) {
        let mut state = self.state.lock();
        state.waiting_since = None;
        state.last_updated = Some(clock::now());
    }

    pub(crate) fn set_eligible(&self, eligible: bool) {
        self.state.lock().node_eligible = eligible;
    }

    /// Whether rules are in place and follow the API.
    pub(crate) fn is_live(&self) -> bool {
        let state = self.state.lock();
        state.last_updated.is_some()
            && state.waiting_since.is_none_or(|since| since.elapsed() <= self.timeout)
    }

    fn is_eligible(&self) -> bool {
        self.state.lock().node_eligible
    }

    /// The answer of `/healthz` (`with_node`) or `/livez`: status and document.
    pub(crate) fn report(&self, with_node: bool) -> (u16, String) {
        let live = self.is_live();
        let eligible = self.is_eligible();
        let healthy = live && (eligible || !with_node);
        let updated = self.state.lock().last_updated.unwrap_or(Timestamp::UNIX_EPOCH).to_string();
        let body = json!({
            "lastUpdated": updated,
            "currentTime": clock::now().to_string(),
            "nodeEligible": eligible,
            "healthy": healthy,
            "status": { "IPv4": { "lastUpdated": updated, "healthy": live } },
        });
        (if healthy { 200 } else { 503 }, body.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_change_that_waits_too_long_is_unhealthy() {
        let health = Health::new(Duration::from_secs(60));
        assert_eq!(health.report(true).0, 503, "before the first sync");
        health.synced();
        assert_eq!(health.report(true).0, 200);
        health.queued();
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(health.report(true).0, 503);
        health.synced();
        health.set_eligible(false);
        assert_eq!((health.report(true).0, health.report(false).0), (503, 200));
    }
}
