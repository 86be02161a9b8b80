//! The loop of one probe.

use std::sync::Arc;
use std::time::Duration;

use copepod_cri::RuntimeService;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Probe};
use tokio::time::sleep;

use super::attempt::{self, Outcome};
use super::{ProbeKind, ProbeResults, Wake};
use crate::pod::PodExt;
use crate::ports::{EventKind, EventSink};
use crate::runtime::plan::ProbeResult;
use crate::types::PodRef;

/// How often a probe waiting for startup looks again.
const STARTUP_POLL: Duration = Duration::from_millis(100);

/// Everything one probe needs.
pub(super) struct ProbeTask {
    pub(super) runtime: Arc<dyn RuntimeService>,
    pub(super) events: Arc<dyn EventSink>,
    pub(super) results: Arc<ProbeResults>,
    pub(super) wake: Wake,
    pub(super) pod: PodRef,
    pub(super) container: Container,
    pub(super) container_id: String,
    pub(super) started_at: Timestamp,
    pub(super) pod_ip: Option<String>,
    pub(super) kind: ProbeKind,
    pub(super) probe: Probe,
}

/// Consecutive outcomes against the thresholds.
#[derive(Debug, Default)]
pub(super) struct Counter {
    last: Option<bool>,
    run: i32,
}

impl Counter {
    /// Notes one outcome; the decided result once the run is long enough.
    pub(super) fn note(
        &mut self,
        success: bool,
        success_threshold: i32,
        failure_threshold: i32,
    ) -> Option<ProbeResult> {
        if self.last == Some(success) {
            self.run = self.run.saturating_add(1);
        } else {
            self.last = Some(success);
            self.run = 1;
        }
        let threshold = if success { success_threshold } else { failure_threshold };
        (self.run >= threshold).then_some(if success { ProbeResult::Success } else { ProbeResult::Failure })
    }
}

impl ProbeTask {
    /// Probes until a final result or until dropped.
    pub(super) async fn run(self) {
        self.wait_for_start().await;
        let seconds = |value: Option<i32>, default: i32| {
            Duration::from_secs(u64::try_from(value.unwrap_or(default).max(1)).unwrap_or(1))
        };
        let period = seconds(self.probe.period_seconds, 10);
        let mut counter = Counter::default();
        loop {
            let outcome = attempt::attempt(&self).await;
            let success = self.report(&outcome);
            let decided = counter.note(
                success,
                self.probe.success_threshold.unwrap_or(1),
                self.probe.failure_threshold.unwrap_or(3),
            );
            if let Some(result) = decided {
                if self.results.set(self.pod.uid(), &self.container_id, self.kind, result) {
                    (self.wake)(self.pod.uid());
                }
                let failed = result == ProbeResult::Failure && self.kind != ProbeKind::Readiness;
                let started = result == ProbeResult::Success && self.kind == ProbeKind::Startup;
                if failed || started {
                    return;
                }
            }
            sleep(period).await;
        }
    }

    async fn wait_for_start(&self) {
        let delay =
            Duration::from_secs(u64::try_from(self.probe.initial_delay_seconds.unwrap_or(0)).unwrap_or(0));
        let age = copepod_sys::clock::now().duration_since(self.started_at);
        sleep(delay.saturating_sub(age.unsigned_abs())).await;
        if self.kind != ProbeKind::Startup && self.container.startup_probe.is_some() {
            while self.results.get(&self.container_id, ProbeKind::Startup) != Some(ProbeResult::Success) {
                sleep(STARTUP_POLL).await;
            }
        }
    }

    /// Emits the event of a failure; true for success.
    fn report(&self, outcome: &Outcome) -> bool {
        let path = crate::runtime::field_path(&self.pod, &self.container.name);
        let word = self.kind.word();
        let (reason, text) = match outcome {
            Outcome::Success => return true,
            Outcome::Warning(text) => {
                self.events.pod_event(
                    &self.pod,
                    path,
                    EventKind::Warning,
                    "ProbeWarning",
                    &format!("{word} probe warning: {text}"),
                );
                return true;
            }
            Outcome::Failure(text) => ("Unhealthy", format!("{word} probe failed: {text}")),
            Outcome::Error(text) => {
                ("Unhealthy", format!("{word} probe errored and resulted in failure: {text}"))
            }
        };
        self.events.pod_event(&self.pod, path, EventKind::Warning, reason, &text);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_count_runs() {
        let mut counter = Counter::default();
        let mut note = |ok| counter.note(ok, 2, 3);
        assert_eq!(note(false), None);
        assert_eq!(note(false), None);
        assert_eq!(note(true), None);
        assert_eq!(note(true), Some(ProbeResult::Success));
        assert_eq!(note(false), None);
        assert_eq!(note(false), None);
        assert_eq!(note(false), Some(ProbeResult::Failure));
        assert_eq!(note(false), Some(ProbeResult::Failure));
    }
}
