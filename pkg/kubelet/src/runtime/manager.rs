//! Applies plans: the only place that starts containers.

mod resize;
mod start;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use copepod_cri::{CriError, RuntimeService, v1 as cri};
use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use super::backoff::Backoff;
use super::dns::{self, PodDns};
use super::images::ImageManager;
use super::plan::{PodActions, ProbeVerdicts, plan_pod_actions};
use super::sandbox::{SandboxInput, render_sandbox};
use super::userns::UserNamespaces;
use crate::config::Config;
use crate::pod::{PodExt, ephemeral_as_container, hash::container_hash_text};
use crate::ports::{EventKind, EventSink, PodAddresses, PodEnvironment, PodVolumes};
use crate::runtime_class::RuntimeClasses;
use crate::runtime_state::RuntimeState;
use crate::types::RuntimePod;

/// Why one container did not start: its waiting reason and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFailure {
    /// `CrashLoopBackOff`, `ErrImagePull`, `CreateContainerConfigError`, …
    pub reason: String,
    /// The message.
    pub message: String,
}

/// How a sync ended.
#[derive(Debug, Clone, Default)]
pub struct SyncOutcome {
    /// Failures by container name.
    pub failures: HashMap<String, StartFailure>,
    /// When to try again at the latest; nothing to retry when absent.
    pub retry: Option<Duration>,
    /// What kept the whole pod from running (sandbox, kill).
    pub error: Option<String>,
    /// Why limits of running containers could not be changed.
    pub resize_error: Option<String>,
    /// Whether anything was started or stopped.
    pub changed: bool,
}

impl SyncOutcome {
    fn retry_in(&mut self, delay: Duration) {
        self.retry = Some(self.retry.map_or(delay, |known| known.min(delay)));
    }

    fn fail(&mut self, container: &str, reason: &str, message: String) {
        self.failures.insert(container.to_owned(), StartFailure { reason: reason.to_owned(), message });
    }
}

/// The shared parts of all pods' syncs.
pub struct PodRuntime {
    pub(super) config: Arc<Config>,
    pub(super) runtime: Arc<dyn RuntimeService>,
    pub(super) images: ImageManager,
    pub(super) volumes: Arc<dyn PodVolumes>,
    pub(super) environment: Arc<dyn PodEnvironment>,
    pub(super) events: Arc<dyn EventSink>,
    pub(super) backoff: Mutex<Backoff>,
    pub(super) classes: RuntimeClasses,
    /// Readiness and abilities of the runtime.
    pub(super) state: Arc<RuntimeState>,
    pub(super) users: UserNamespaces,
    /// What containers were given last, by id.
    given: RwLock<HashMap<String, ResourceRequirements>>,
    ips: RwLock<HashMap<String, Vec<String>>>,
    host_ips: Vec<std::net::IpAddr>,
    memory_capacity: i64,
}

impl std::fmt::Debug for PodRuntime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PodRuntime").field("backoff", &self.backoff).finish_non_exhaustive()
    }
}

/// Retry after an error that is nobody's back-off.
pub const ERROR_RETRY: Duration = Duration::from_secs(2);

/// `spec.containers{name}`, the part of a pod an event is about.
#[must_use]
pub fn field_path(pod: &Pod, container: &str) -> Option<String> {
    let spec = pod.spec();
    if spec.containers.iter().any(|c| c.name == container) {
        Some(format!("spec.containers{{{container}}}"))
    } else if pod.init_containers().iter().any(|c| c.name == container) {
        Some(format!("spec.initContainers{{{container}}}"))
    } else if spec.ephemeral_containers.iter().flatten().any(|c| c.name == container) {
        Some(format!("spec.ephemeralContainers{{{container}}}"))
    } else {
        None
    }
}

/// `name_namespace(uid)`, a pod in messages.
#[must_use]
pub fn pod_text(pod: &Pod) -> String {
    format!("{}_{}({})", pod.name(), pod.namespace(), pod.uid())
}

/// A whole number of seconds in Go's form (`1m20s`).
fn go_seconds(delay: Duration) -> String {
    let seconds = delay.as_secs();
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) }
}

/// The ports a [`PodRuntime`] works through.
pub struct RuntimePorts {
    /// The runtime.
    pub runtime: Arc<dyn RuntimeService>,
    /// Volumes.
    pub volumes: Arc<dyn PodVolumes>,
    /// Environment variables.
    pub environment: Arc<dyn PodEnvironment>,
    /// Events.
    pub events: Arc<dyn EventSink>,
    /// RuntimeClasses.
    pub classes: RuntimeClasses,
    /// Readiness and abilities of the runtime.
    pub state: Arc<RuntimeState>,
}

impl std::fmt::Debug for RuntimePorts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimePorts").finish_non_exhaustive()
    }
}

impl PodRuntime {
    /// A runtime for one node; `memory_capacity` in bytes.
    #[must_use]
    pub fn new(
        config: Arc<Config>,
        ports: RuntimePorts,
        images: ImageManager,
        memory_capacity: i64,
        host_ips: Vec<std::net::IpAddr>,
    ) -> Self {
        let users = UserNamespaces::new(config.root_dir.join("pods"));
        let backoff = Backoff::new(Duration::from_secs(10), config.max_container_backoff);
        Self {
            host_ips,
            config,
            runtime: ports.runtime,
            images,
            volumes: ports.volumes,
            environment: ports.environment,
            events: ports.events,
            classes: ports.classes,
            state: ports.state,
            users,
            backoff: Mutex::new(backoff),
            given: RwLock::default(),
            ips: RwLock::default(),
            memory_capacity,
        }
    }

    /// The primary address of a pod, once its sandbox has one.
    #[must_use]
    pub fn pod_ip(&self, uid: &str) -> Option<String> {
        self.ips.read().get(uid)?.first().cloned()
    }

    /// The node's memory, bytes.
    #[must_use]
    pub fn memory_capacity(&self) -> i64 {
        self.memory_capacity
    }

    /// Forgets a pod that is gone, with the containers it had.
    pub fn forget(&self, state: &RuntimePod) {
        self.ips.write().remove(&state.uid);
        self.users.release(&state.uid);
        self.given.write().retain(|id, _| state.container_by_id(id).is_none());
    }

    /// Adds what only this process knows to what the runtime tells.
    pub fn complete(&self, state: &mut RuntimePod) {
        let given = self.given.read();
        for container in &mut state.containers {
            container.given = given.get(&container.id).cloned();
        }
    }

    fn addresses(&self, pod: &Pod) -> PodAddresses {
        let host_ips = self.host_ips.clone();
        let pod_ips = if pod.is_host_network() {
            host_ips.iter().map(ToString::to_string).collect()
        } else {
            self.ips.read().get(pod.uid()).cloned().unwrap_or_default()
        };
        PodAddresses { pod_ips, host_ips }
    }

    /// Brings the pod one step closer to its spec.
    pub async fn sync(&self, pod: &Pod, state: &RuntimePod, probes: &dyn ProbeVerdicts) -> SyncOutcome {
        let actions = plan_pod_actions(pod, state, probes);
        let mut outcome = SyncOutcome::default();
        tracing::debug!(pod = pod.full_name(), ?actions, "pod actions");
        if !self.apply_kills(pod, state, &actions, &mut outcome).await {
            return outcome;
        }
        self.apply_resizes(pod, state, &actions, &mut outcome).await;
        let sandbox = match self.apply_sandbox(pod, state, &actions, &mut outcome).await {
            Ok(Some(sandbox)) => sandbox,
            Ok(None) => return outcome,
            Err(error) => {
                outcome.error = Some(error);
                outcome.retry_in(ERROR_RETRY);
                return outcome;
            }
        };
        self.apply_starts(pod, state, &actions, &sandbox, &mut outcome).await;
        outcome
    }

    /// Kills what has to go; false when nothing may be started after it.
    async fn apply_kills(
        &self,
        pod: &Pod,
        state: &RuntimePod,
        actions: &PodActions,
        outcome: &mut SyncOutcome,
    ) -> bool {
        if actions.kill_pod {
            if state.is_running() {
                outcome.changed = true;
                if let Err(error) = self.kill_pod(pod, state, None).await {
                    outcome.error =
                        Some(format!("failed to \"KillPodSandbox\" for {:?}: {error}", pod_text(pod)));
                    outcome.retry_in(ERROR_RETRY);
                    return false;
                }
            }
            return actions.create_sandbox;
        }
        for kill in &actions.kill {
            let Some(found) = state.container_by_id(&kill.id) else { continue };
            outcome.changed = true;
            if let Err(error) = self.kill_container(pod, found, &kill.message, kill.reason, None).await {
                outcome.error = Some(format!("failed to \"KillContainer\" for {:?}: {error}", kill.name));
                outcome.retry_in(ERROR_RETRY);
                return false;
            }
        }
        true
    }

    /// Makes the sandbox if needed; its id and configuration.
    async fn apply_sandbox(
        &self,
        pod: &Pod,
        state: &RuntimePod,
        actions: &PodActions,
        outcome: &mut SyncOutcome,
    ) -> Result<Option<start::Sandbox>, String> {
        let nothing = actions.init.is_empty() && actions.main.is_empty() && actions.ephemeral.is_empty();
        if !actions.create_sandbox && nothing {
            self.remember_ips(pod, &state.ips);
            return Ok(None);
        }
        let config = self.render_sandbox(pod, actions.attempt)?;
        if !actions.create_sandbox {
            self.remember_ips(pod, &state.ips);
            return Ok(Some(start::Sandbox { id: actions.sandbox_id.clone(), config }));
        }
        outcome.changed = true;
        let failed = |error: &CriError| {
            let text = format!("Failed to create pod sandbox: {error}");
            self.events.pod_event(pod, None, EventKind::Warning, "FailedCreatePodSandBox", &text);
            format!(
                "failed to \"CreatePodSandbox\" for {:?} with CreatePodSandboxError: {error}",
                pod_text(pod)
            )
        };
        std::fs::create_dir_all(&config.log_directory)
            .map_err(|error| format!("create log directory {}: {error}", config.log_directory))?;
        let handler = self.classes.handler(pod).await.map_err(|error| {
            let text = format!("Failed to create pod sandbox: {error}");
            self.events.pod_event(pod, None, EventKind::Warning, "FailedCreatePodSandBox", &text);
            text
        })?;
        if pod.spec().host_users == Some(false) && !self.state.handler(&handler).user_namespaces {
            let why = format!("RuntimeClass handler {handler:?} does not support user namespaces");
            let text = format!("Failed to create pod sandbox: {why}");
            self.events.pod_event(pod, None, EventKind::Warning, "FailedCreatePodSandBox", &text);
            return Err(why);
        }
        let id = self.runtime.run_pod_sandbox(config.clone(), handler).await.map_err(|e| failed(&e))?;
        if !pod.is_host_network() {
            let status = self.runtime.pod_sandbox_status(&id).await.map_err(|e| failed(&e))?;
            let ips: Vec<_> = status
                .network
                .iter()
                .flat_map(|n| std::iter::once(&n.ip).chain(n.additional_ips.iter().map(|i| &i.ip)))
                .filter(|ip| !ip.is_empty())
                .cloned()
                .collect();
            self.remember_ips(pod, &ips);
        }
        Ok(Some(start::Sandbox { id, config }))
    }

    fn remember_ips(&self, pod: &Pod, ips: &[String]) {
        if !ips.is_empty() && !pod.is_host_network() {
            self.ips.write().insert(pod.uid().to_owned(), ips.to_vec());
        }
    }

    fn render_sandbox(&self, pod: &Pod, attempt: u32) -> Result<cri::PodSandboxConfig, String> {
        let host: Option<PodDns> = dns::host_dns(self.config.resolv_conf.as_deref());
        let (dns, warning) = dns::render_dns(&self.config, pod, host.as_ref());
        if let Some((reason, text)) = warning {
            self.events.pod_event(pod, None, EventKind::Warning, reason, &text);
        }
        let extra_groups = self.volumes.extra_groups(pod);
        let users = self.users.of(pod)?;
        let input = SandboxInput { pod, attempt, dns, extra_groups, users };
        render_sandbox(&self.config, input).map_err(|error| {
            format!("failed to generate sandbox config for pod {:?}: {error}", pod_text(pod))
        })
    }

    /// Starts what the plan names, in upstream's order.
    async fn apply_starts(
        &self,
        pod: &Pod,
        state: &RuntimePod,
        actions: &PodActions,
        sandbox: &start::Sandbox,
        outcome: &mut SyncOutcome,
    ) {
        let spec = pod.spec();
        // Once for all containers of this sync.
        let image_volumes = self.images.ensure_volumes(pod, &sandbox.config).await;
        let image_volumes = &image_volumes;
        for index in &actions.ephemeral {
            let Some(ephemeral) = spec.ephemeral_containers.iter().flatten().nth(*index) else { continue };
            let target = ephemeral
                .target_container_name
                .as_deref()
                .and_then(|name| state.container(name))
                .map(|c| c.id.clone());
            let container = ephemeral_as_container(ephemeral);
            let run = start::Run { pod, state, sandbox, target, image_volumes };
            self.start_one(&run, &container, outcome).await;
        }
        let run = start::Run { pod, state, sandbox, target: None, image_volumes };
        for index in &actions.init {
            let Some(container) = pod.init_containers().get(*index) else { continue };
            if !self.start_one(&run, container, outcome).await && !crate::pod::is_sidecar(container) {
                // The next ones depend on it.
                return;
            }
        }
        let starts: Vec<&Container> = actions.main.iter().filter_map(|i| spec.containers.get(*i)).collect();
        for container in starts {
            self.start_one(&run, container, outcome).await;
        }
    }

    /// Starts one container unless its back-off forbids; true when it started.
    async fn start_one(
        &self,
        run: &start::Run<'_>,
        container: &Container,
        outcome: &mut SyncOutcome,
    ) -> bool {
        let (pod, state) = (run.pod, run.state);
        if let Some((left, delay)) = self.in_backoff(pod, container, state) {
            let text =
                format!("Back-off restarting failed container {} in pod {}", container.name, pod_text(pod));
            let path = field_path(pod, &container.name);
            self.events.pod_event(pod, path, EventKind::Warning, "BackOff", &text);
            let message = format!(
                "back-off {} restarting failed container={} pod={}",
                go_seconds(delay),
                container.name,
                pod_text(pod)
            );
            outcome.fail(&container.name, "CrashLoopBackOff", message);
            outcome.retry_in(left);
            return false;
        }
        match self.start_container(run, container).await {
            Ok(()) => {
                outcome.changed = true;
                true
            }
            Err(failure) => {
                outcome.fail(&container.name, failure.reason, failure.message);
                outcome.retry_in(failure.retry.unwrap_or(ERROR_RETRY));
                false
            }
        }
    }

    /// The back-off of a container that ended: what is left of it and its whole length. Notes
    /// the failure when none is in force.
    fn in_backoff(
        &self,
        pod: &Pod,
        container: &Container,
        state: &RuntimePod,
    ) -> Option<(Duration, Duration)> {
        let ended = state
            .containers
            .iter()
            .find(|c| c.name == container.name && c.state == cri::ContainerState::ContainerExited)?;
        let key = format!("{}_{}_{}", pod.uid(), container.name, container_hash_text(container));
        let now = Instant::now();
        let ago = copepod_sys::clock::now().duration_since(ended.finished_at).unsigned_abs();
        let since = now.checked_sub(ago).unwrap_or(now);
        let mut backoff = self.backoff.lock();
        if let Some(left) = backoff.remaining(&key, since, now) {
            return Some((left, backoff.delay(&key)));
        }
        backoff.next(&key, since, now);
        None
    }
}
