//! Acting on node pressure: reads the signals, frees what nobody uses, and evicts a pod when that is not enough.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Kubelet, image_gc};
use crate::eviction::rank::{Candidate, Usage, message, rank};
use crate::eviction::{Monitor, Observation, Observations, Signal, Threshold, thresholds};
use crate::node::info;
use crate::node::status::Pressure;
use crate::pod::PodExt;
use crate::ports::EventKind;
use crate::runtime::labels;
use crate::status::{failed_status, phase};

/// Between two looks (upstream's period).
const ROUND: Duration = Duration::from_secs(10);
/// How long an evicted pod may take before the next one is considered.
const CLEANUP: Duration = Duration::from_secs(30);

impl Kubelet {
    /// Watches for pressure until shutdown.
    pub(crate) async fn watch_pressure(self: Arc<Self>, shutdown: CancellationToken) {
        let mut monitor = Monitor::new(thresholds(&self.config), self.config.eviction_pressure_transition);
        let mut going: Option<(String, Instant)> = None;
        loop {
            let observations = self.observe().await;
            let verdict = monitor.look(&observations, Instant::now());
            self.set_pressure(verdict.pressure);
            let waits = going.as_ref().is_some_and(|(uid, since)| {
                since.elapsed() < CLEANUP && self.cache.read().get(uid).is_some_and(|p| p.is_running())
            });
            if let Some(threshold) = verdict.reclaim.filter(|_| !waits) {
                let evicted = self.reclaim(&threshold, &observations).await;
                going = evicted.map(|uid| (uid, Instant::now()));
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep(ROUND) => {}
            }
        }
    }

    fn set_pressure(&self, new: Pressure) {
        let old = std::mem::replace(&mut *self.pressure.write(), new);
        if old != new {
            self.admission.set_pressure(new);
            // The node's status tells it at once.
            self.node.notify();
        }
    }

    /// The node's conditions.
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        *self.pressure.read()
    }

    async fn observe(&self) -> Observations {
        let mut seen = Observations::new();
        let available = u64::try_from(info::memory_available()).unwrap_or(0);
        let capacity = u64::try_from(self.pods.memory_capacity()).unwrap_or(0);
        seen.insert(Signal::MemoryAvailable, Observation { available, capacity });
        let mut disk = |path: &Path, bytes, inodes| {
            let Ok((size, free, files, files_free)) = info::filesystem(path) else { return };
            seen.insert(bytes, Observation { available: free, capacity: size });
            if files > 0 {
                seen.insert(inodes, Observation { available: files_free, capacity: files });
            }
        };
        disk(&self.config.root_dir, Signal::NodeFsAvailable, Signal::NodeFsInodesFree);
        if let Some(mount) = image_gc::image_mount(self.images.as_ref()).await {
            disk(Path::new(&mount), Signal::ImageFsAvailable, Signal::ImageFsInodesFree);
        }
        if let Some((used, most)) = info::process_ids() {
            let observation = Observation { available: most.saturating_sub(used), capacity: most };
            seen.insert(Signal::PidAvailable, observation);
        }
        seen
    }

    /// Frees the resource; the UID of a pod that has to go.
    async fn reclaim(&self, threshold: &Threshold, before: &Observations) -> Option<String> {
        let resource = threshold.signal.resource();
        let text = format!("Attempting to reclaim {resource}");
        self.events.node_event(EventKind::Warning, "EvictionThresholdMet", &text);
        if matches!(resource, "ephemeral-storage" | "inodes") {
            if let Err(error) = self.remove_unused_images().await {
                tracing::warn!(%error, "unused images");
            }
            let again = self.observe().await;
            let seen = again.get(&threshold.signal).copied().unwrap_or_default();
            if seen.available >= threshold.quantity(seen) {
                return None;
            }
        }
        let mut candidates = self.candidates(threshold.signal).await;
        rank(&mut candidates, threshold.signal);
        let seen = before.get(&threshold.signal).copied().unwrap_or_default();
        for candidate in candidates {
            if candidate.pod.is_critical() {
                continue;
            }
            let text = message(&candidate, threshold, seen);
            let own = candidate.pod.spec_grace();
            let grace = if threshold.is_hard() { 1 } else { own.min(self.config.eviction_max_pod_grace) };
            self.evict(&candidate.pod, &text, grace);
            return Some(candidate.pod.uid().to_owned());
        }
        tracing::warn!(resource, "no pod can be evicted");
        None
    }

    /// Ends a pod for want of a resource.
    fn evict(&self, pod: &Arc<Pod>, text: &str, grace: i64) {
        tracing::warn!(pod = pod.full_name(), text, "pod is evicted");
        self.events.pod_event(pod, None, EventKind::Warning, "Evicted", text);
        let now = copepod_sys::clock::now();
        let mut status = failed_status(pod, self.statuses.get(pod.uid()).as_ref(), "Evicted", text, now);
        let conditions = status.conditions.get_or_insert_with(Vec::new);
        conditions.retain(|c| c.type_ != "DisruptionTarget");
        conditions.push(PodCondition {
            type_: "DisruptionTarget".to_owned(),
            status: "True".to_owned(),
            reason: Some("TerminationByKubelet".to_owned()),
            message: Some(text.to_owned()),
            observed_generation: pod.metadata.generation,
            ..PodCondition::default()
        });
        self.statuses.set(pod, status);
        if let Some(workers) = self.workers.get() {
            workers.kill(pod.uid(), Some(grace));
        }
    }

    /// Pods that run, with what they take.
    async fn candidates(&self, signal: Signal) -> Vec<Candidate> {
        let mut usage = self.usage(signal).await;
        let views = self.workers.get().map(|w| w.views()).unwrap_or_default();
        let active = views.into_iter().filter(|v| !phase::is_terminal(v.pod.phase()) && !v.pod.is_deleted());
        let running = active.filter(|v| self.cache.read().get(v.pod.uid()).is_some_and(|p| p.is_running()));
        running
            .map(|v| {
                let usage = usage.as_mut().map(|all| all.remove(v.pod.uid()).unwrap_or_default());
                Candidate { pod: v.pod, usage }
            })
            .collect()
    }

    /// What each container takes, by pod; `None` when the runtime does not say.
    async fn usage(&self, signal: Signal) -> Option<BTreeMap<String, Usage>> {
        let stats = self.runtime.list_container_stats(None).await.ok()?;
        let mut all = BTreeMap::<String, Usage>::new();
        for stats in stats {
            let Some(attributes) = &stats.attributes else { continue };
            let label = |key: &str| attributes.labels.get(key).cloned().unwrap_or_default();
            let layer = stats.writable_layer.as_ref();
            let amount = match signal {
                Signal::MemoryAvailable => stats.memory.as_ref().and_then(|m| m.working_set_bytes.as_ref()),
                Signal::NodeFsInodesFree | Signal::ImageFsInodesFree => {
                    layer.and_then(|l| l.inodes_used.as_ref())
                }
                _ => layer.and_then(|l| l.used_bytes.as_ref()),
            };
            let amount = amount.map_or(0, |v| v.value);
            all.entry(label(labels::POD_UID)).or_default().insert(label(labels::CONTAINER_NAME), amount);
        }
        Some(all)
    }
}
