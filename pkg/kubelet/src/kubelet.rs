//! The syncer behind the workers: what "sync", "terminate" and "free" mean for one pod.

mod housekeeping;
mod image_gc;
mod pressure;
mod setback;
mod view;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use copepod_cri::{ImageService, RuntimeService};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use self::setback::Setbacks;

use crate::admission::{Admission, NODE_AFFINITY};
use crate::allocation::{Allocations, Notice};
use crate::config::Config;
use crate::mirror::Mirrors;
use crate::node::status::Pressure;
use crate::pod::PodExt;
use crate::ports::{BoxFuture, EventKind, EventSink, PodVolumes};
use crate::prober::Prober;
use crate::runtime::{ERROR_RETRY, PodRuntime, StartFailure, cgroup, plan, view as runtime_view};
use crate::runtime_state::RuntimeState;
use crate::status::manager::StatusManager;
use crate::status::{StatusInput, failed_status, finished_status, phase, refused_status, render_status};
use crate::types::{PodRef, PodUid, RuntimePod};
use crate::worker::{Phase, PodSyncer, PodWorkers, WorkerView};

/// Wait before a failed setup is tried again.
const RETRY: Duration = Duration::from_secs(2);

const NETWORK_RETRY: Duration = Duration::from_secs(10);

/// Everything the kubelet's parts share.
pub struct Kubelet {
    pub(crate) config: Arc<Config>,
    pub(crate) runtime: Arc<dyn RuntimeService>,
    pub(crate) images: Arc<dyn ImageService>,
    pub(crate) pods: PodRuntime,
    pub(crate) statuses: Arc<StatusManager>,
    pub(crate) prober: Prober,
    pub(crate) volumes: Arc<dyn PodVolumes>,
    pub(crate) events: Arc<dyn EventSink>,
    pub(crate) node: Arc<RuntimeState>,
    pub(crate) mirrors: Option<Arc<Mirrors>>,
    pub(crate) admission: Admission,
    allocations: Allocations,
    pressure: RwLock<Pressure>,
    setbacks: Setbacks,
    pub(crate) workers: OnceLock<Arc<PodWorkers>>,
    failures: Mutex<HashMap<PodUid, HashMap<String, StartFailure>>>,
    cache: RwLock<HashMap<PodUid, Arc<RuntimePod>>>,
}

impl std::fmt::Debug for Kubelet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubelet").field("node", &self.config.node_name).finish_non_exhaustive()
    }
}

/// The parts a [`Kubelet`] is built from.
pub struct KubeletParts {
    /// Configuration.
    pub config: Arc<Config>,
    /// Runtime.
    pub runtime: Arc<dyn RuntimeService>,
    /// Images.
    pub images: Arc<dyn ImageService>,
    /// Container starts.
    pub pods: PodRuntime,
    /// Probes.
    pub prober: Prober,
    /// Volumes.
    pub volumes: Arc<dyn PodVolumes>,
    /// Events.
    pub events: Arc<dyn EventSink>,
    /// Runtime and network readiness.
    pub node: Arc<RuntimeState>,
    /// Mirror pods, with an API server.
    pub mirrors: Option<Arc<Mirrors>>,
    /// Admission rules.
    pub admission: Admission,
}

impl std::fmt::Debug for KubeletParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeletParts").finish_non_exhaustive()
    }
}

impl Kubelet {
    /// A kubelet; [`Kubelet::workers`] is set once the workers exist.
    #[must_use]
    pub fn new(parts: KubeletParts) -> Arc<Self> {
        Arc::new(Self {
            config: parts.config,
            runtime: parts.runtime,
            images: parts.images,
            pods: parts.pods,
            statuses: Arc::default(),
            prober: parts.prober,
            volumes: parts.volumes,
            events: parts.events,
            node: parts.node,
            mirrors: parts.mirrors,
            admission: parts.admission,
            allocations: Allocations::default(),
            pressure: RwLock::default(),
            setbacks: Setbacks::default(),
            workers: OnceLock::new(),
            failures: Mutex::default(),
            cache: RwLock::default(),
        })
    }

    /// Asks the runtime about a pod and remembers the answer.
    async fn fetch(&self, uid: &str) -> Option<Arc<RuntimePod>> {
        match runtime_view::fetch_pod(self.runtime.as_ref(), uid).await {
            Ok(mut state) => {
                self.pods.complete(&mut state);
                let state = Arc::new(state);
                self.cache.write().insert(uid.to_owned(), state.clone());
                Some(state)
            }
            Err(error) => {
                tracing::warn!(uid, %error, "runtime does not answer about a pod");
                None
            }
        }
    }

    fn render(&self, pod: &PodRef, state: &RuntimePod, terminal: bool) -> PodStatus {
        let previous = self.statuses.get(pod.uid());
        let failures = self.failures.lock().get(pod.uid()).cloned().unwrap_or_default();
        render_status(StatusInput {
            pod,
            previous: previous.as_ref(),
            state,
            failures: &failures,
            probes: &self.prober.results(),
            resize: &self.allocations.conditions(pod.uid()),
            terminal,
            host_ips: &self.node.host_ips(),
            runtime_name: &self.node.runtime_name(),
            now: copepod_sys::clock::now(),
        })
    }

    async fn sync_pod(&self, pod: PodRef) -> (bool, Duration) {
        let Some(state) = self.fetch(pod.uid()).await else { return (false, RETRY) };
        if let Some((reason, text)) = self.past_deadline(&pod) {
            self.fail(&pod, reason, &text, &text);
            return (true, RETRY);
        }
        if let Some((reason, text)) = self.refusal(&pod, &state).await {
            self.reject(&pod, reason, &text);
            return (true, RETRY);
        }
        let pod = self.allocate(&pod, &state);
        self.prober.sync(&pod, &state, false);
        let status = self.render(&pod, &state, false);
        let over = phase::is_terminal(status.phase.as_deref().unwrap_or_default());
        self.statuses.set(&pod, status);
        if over {
            return (true, RETRY);
        }
        if let Some(mirrors) = &self.mirrors {
            mirrors.ensure_in_background(&pod, &self.statuses);
        }
        if let Err((reason, text)) = self.prepare(&pod).await {
            if self.setbacks.tells(pod.uid(), Instant::now()) {
                self.events.pod_event(&pod, None, EventKind::Warning, reason, &text);
            }
            // The network's coming wakes every worker, so this wait only repeats the event.
            let pause = self.setbacks.failed(pod.uid());
            return (false, if reason == "NetworkNotReady" { NETWORK_RETRY } else { pause });
        }
        let outcome = self.pods.sync(&pod, &state, self.prober.results().as_ref()).await;
        if let Some(error) = &outcome.error {
            tracing::warn!(pod = pod.full_name(), error, "pod sync");
        }
        match &outcome.resize_error {
            Some(why) => {
                let notice = self.allocations.fail(&pod, why, copepod_sys::clock::now());
                self.tell(&pod, notice);
            }
            None => self.narrow_cgroup(&pod),
        }
        let changed_failures = {
            let mut failures = self.failures.lock();
            let before = failures.insert(pod.uid().to_owned(), outcome.failures.clone()).unwrap_or_default();
            before != outcome.failures
        };
        if outcome.changed || changed_failures || outcome.resize_error.is_some() {
            self.report(&pod).await;
        }
        let again = match outcome.retry {
            // An error without a back-off of its own.
            Some(ERROR_RETRY) => self.setbacks.failed(pod.uid()),
            Some(retry) => retry,
            None => {
                self.setbacks.over(pod.uid());
                self.config.sync_frequency
            }
        };
        let again = again.min(self.config.sync_frequency);
        (false, self.until_deadline(&pod).map_or(again, |left| again.min(left)))
    }

    /// Tells what a sync changed without waiting for the runtime's event.
    async fn report(&self, pod: &PodRef) {
        let Some(state) = self.fetch(pod.uid()).await else { return };
        self.prober.sync(pod, &state, false);
        self.note_resize(pod, &state);
        let status = self.render(pod, &state, false);
        self.statuses.set(pod, status);
        if let Err(error) = self.pods.collect_dead(pod, &state).await {
            tracing::debug!(pod = pod.full_name(), %error, "old containers not removed");
        }
    }

    /// Why this node refuses the pod; only asked before its first container.
    async fn refusal(&self, pod: &PodRef, state: &RuntimePod) -> Option<(&'static str, String)> {
        if pod.is_static() || !state.containers.is_empty() {
            return None;
        }
        let refusal = self.admission.refuse(pod, &self.others())?;
        if refusal.0 != NODE_AFFINITY {
            return Some(refusal);
        }
        self.admission.refresh().await;
        self.admission.refuse(pod, &self.others())
    }

    /// The pods that take room on this node, with what they were granted.
    fn others(&self) -> Vec<PodRef> {
        let views = self.workers.get().into_iter().flat_map(|w| w.views());
        views.filter(|v| self.takes_room(v)).map(|v| self.allocations.granted(&v.pod)).collect()
    }

    /// Whether something of the pod runs or may. Our own word counts, not the API's, which learns of an end later: a
    /// refused pod that still counted would have the next one refused.
    fn takes_room(&self, view: &WorkerView) -> bool {
        let (uid, pod) = (view.pod.uid(), &view.pod);
        match view.phase {
            Phase::Wait | Phase::Sync => !phase::is_terminal(pod.phase()) && !self.statuses.is_over(uid),
            Phase::Terminating => !self.statuses.is_stopped(uid),
            Phase::Terminated | Phase::Done => false,
        }
    }

    /// Refuses a pod before it began.
    fn reject(&self, pod: &PodRef, reason: &str, text: &str) {
        self.events.pod_event(pod, None, EventKind::Warning, reason, text);
        let message = format!("Pod was rejected: {text}");
        self.statuses.set(pod, refused_status(pod, reason, &message, copepod_sys::clock::now()));
        self.statuses.set_stopped(pod.uid());
    }

    /// Ends a pod with a reason; the event and the status may say it differently.
    fn fail(&self, pod: &PodRef, reason: &str, event: &str, message: &str) {
        let previous = self.statuses.get(pod.uid());
        let status = failed_status(pod, previous.as_ref(), reason, message, copepod_sys::clock::now());
        self.events.pod_event(pod, None, EventKind::Warning, reason, event);
        self.statuses.set(pod, status);
    }

    /// The pod with the resources it was granted, after its wish was considered.
    fn allocate(&self, pod: &PodRef, state: &RuntimePod) -> PodRef {
        let others = || self.others();
        let refuse = |wish: &Pod| self.admission.refuse(wish, &others());
        let (granted, notices) = self.allocations.decide(pod, copepod_sys::clock::now(), refuse);
        self.tell(&granted, notices);
        self.note_resize(&granted, state);
        granted
    }

    /// Notes whether the runtime has carried out what was granted.
    fn note_resize(&self, pod: &PodRef, state: &RuntimePod) {
        let under_way = plan::resize_under_way(pod, state);
        let notice = self.allocations.carry_out(pod, under_way, copepod_sys::clock::now());
        self.tell(pod, notice);
    }

    fn tell(&self, pod: &PodRef, notices: impl IntoIterator<Item = Notice>) {
        for (kind, reason, text) in notices {
            self.events.pod_event(pod, None, kind, reason, &text);
        }
    }

    /// Takes back what the pod's cgroup was left with for containers that had yet to shrink.
    fn narrow_cgroup(&self, pod: &PodRef) {
        if let Err(error) = cgroup::ensure_pod(&self.config, pod, false) {
            tracing::debug!(pod = pod.full_name(), %error, "pod cgroup keeps its limits");
        }
    }

    /// activeDeadlineSeconds, counted from the pod's start on this node.
    fn past_deadline(&self, pod: &PodRef) -> Option<(&'static str, String)> {
        let limit = pod.spec().active_deadline_seconds?;
        let started = self.statuses.get(pod.uid()).and_then(|s| s.start_time)?;
        let age = copepod_sys::clock::now().duration_since(started.0).as_secs();
        (age >= limit).then(|| {
            ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline".to_owned())
        })
    }

    /// What is left of activeDeadlineSeconds.
    fn until_deadline(&self, pod: &PodRef) -> Option<Duration> {
        let limit = pod.spec().active_deadline_seconds?;
        let started = self.statuses.get(pod.uid()).and_then(|s| s.start_time)?;
        let age = copepod_sys::clock::now().duration_since(started.0).as_secs();
        Some(Duration::from_secs(u64::try_from(limit - age).unwrap_or(0).max(1)))
    }

    /// Everything a pod needs before its containers: network, cgroup, directory, volumes.
    async fn prepare(&self, pod: &PodRef) -> Result<(), (&'static str, String)> {
        if !pod.is_host_network()
            && let Some(why) = self.node.network_problem()
        {
            return Err(("NetworkNotReady", format!("network is not ready: {why}")));
        }
        if let Err(error) = cgroup::ensure_pod(&self.config, pod, true) {
            tracing::warn!(pod = pod.full_name(), %error, "pod cgroup cannot be set up; limits of its containers still hold");
        }
        let dir = self.config.pod_dir(pod.uid());
        std::fs::create_dir_all(&dir)
            .map_err(|error| ("FailedMount", format!("pod directory {}: {error}", dir.display())))?;
        self.volumes.mount(pod).await.map_err(|error| ("FailedMount", error.to_string()))
    }

    async fn terminate_pod(&self, pod: PodRef, grace: Option<i64>) -> bool {
        let pod = self.allocations.granted(&pod);
        let Some(state) = self.fetch(pod.uid()).await else { return false };
        self.prober.sync(&pod, &state, true);
        if state.is_running() {
            // The grace period of a deletion shows while containers stop.
            let status = self.render(&pod, &state, false);
            self.statuses.set(&pod, status);
        }
        if let Err(error) = self.pods.kill_pod(&pod, &state, grace).await {
            tracing::warn!(pod = pod.full_name(), %error, "pod cannot be stopped yet");
            return false;
        }
        let Some(state) = self.fetch(pod.uid()).await else { return false };
        if state.is_running() {
            return false;
        }
        self.prober.remove(pod.uid());
        self.failures.lock().remove(pod.uid());
        self.setbacks.over(pod.uid());
        if !self.statuses.is_stopped(pod.uid()) {
            // What had ended before we knew it is told as it was.
            let status = match &pod.status {
                Some(told)
                    if phase::is_terminal(pod.phase())
                        && state.sandboxes.is_empty()
                        && state.containers.is_empty() =>
                {
                    told.clone()
                }
                _ => finished_status(&pod, self.render(&pod, &state, true)),
            };
            self.statuses.set(&pod, status);
            self.statuses.set_stopped(pod.uid());
        }
        self.allocations.forget(pod.uid());
        if let Some(workers) = self.workers.get() {
            // There is more room now.
            for uid in self.allocations.waiting() {
                workers.wake(&uid);
            }
        }
        true
    }

    async fn free_pod(&self, pod: PodRef, removed: bool) -> bool {
        let uid = pod.uid().to_owned();
        if let Err(error) = self.volumes.unmount(&uid).await {
            tracing::warn!(pod = pod.full_name(), %error, "volumes cannot be unmounted yet");
            return false;
        }
        if let Err(error) = cgroup::remove_pod(&self.config, &pod) {
            tracing::debug!(pod = pod.full_name(), %error, "pod cgroup is still in use");
        }
        if !(removed || pod.is_deleted()) {
            return true;
        }
        let Some(state) = self.fetch(&uid).await else { return false };
        if let Err(error) = self.pods.remove_all(&state).await {
            tracing::warn!(pod = pod.full_name(), %error, "containers cannot be removed yet");
            return false;
        }
        let dir = self.config.pod_dir(&uid);
        if housekeeping::mounted_below(&dir) {
            tracing::warn!(pod = pod.full_name(), dir = %dir.display(), "something is still mounted in the pod's directory");
            return false;
        }
        if let Err(error) = std::fs::remove_dir_all(&dir)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(dir = %dir.display(), %error, "pod directory");
        }
        self.pods.remove_pod_logs(&pod, &state);
        self.pods.forget(&state);
        self.cache.write().remove(&uid);
        self.statuses.set_freed(&pod);
        if removed && let Some(mirrors) = &self.mirrors {
            mirrors.remove(&pod).await;
        }
        true
    }
}

impl PodSyncer for Kubelet {
    fn sync(&self, pod: PodRef) -> BoxFuture<'_, (bool, Duration)> {
        Box::pin(self.sync_pod(pod))
    }

    fn terminate(&self, pod: PodRef, grace: Option<i64>) -> BoxFuture<'_, bool> {
        Box::pin(self.terminate_pod(pod, grace))
    }

    fn free(&self, pod: PodRef, removed: bool) -> BoxFuture<'_, bool> {
        Box::pin(self.free_pod(pod, removed))
    }

    fn done(&self, pod: &PodRef) {
        let known = self.workers.get().is_some_and(|w| w.view(pod.uid()).is_some());
        if !known {
            self.statuses.remove(pod.uid());
        }
        tracing::info!(pod = pod.full_name(), uid = pod.uid(), "pod is done");
    }
}

#[cfg(test)]
mod tests;
