//! What to do with a pod next: the pure comparison of its spec with what the runtime holds.
//!
//! Rules as upstream's computePodActions (kubernetes v1.37): sandbox first, then init containers
//! in order (the last one that ran tells how far initialisation went), sidecars kept running
//! throughout, then main containers. A running container is killed when its image or name
//! changed or a liveness or startup probe failed.

mod init;

use copepod_cri::v1 as cri;
use k8s_openapi::api::core::v1::{Container, Pod};

use crate::pod::hash::container_hash_text;
use crate::pod::resources::container_limits;
use crate::pod::{PodExt, RestartPolicy, quantity, restarts_after_exit};
use crate::types::{RuntimeContainer, RuntimePod};

/// Outcome of a probe as the planner needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeResult {
    /// The last word was success.
    Success,
    /// Enough failures in a row.
    Failure,
    /// Not decided yet.
    Unknown,
}

/// What probes have found out so far, by container id; `None` when a probe has not spoken.
pub trait ProbeVerdicts: Send + Sync {
    /// Liveness of one container.
    fn liveness(&self, container_id: &str) -> Option<ProbeResult>;
    /// Startup of one container.
    fn startup(&self, container_id: &str) -> Option<ProbeResult>;
}

/// Why a container is killed; decides its grace period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillReason {
    /// No special reason.
    Other,
    /// Liveness probe.
    Liveness,
    /// Startup probe.
    Startup,
    /// Its state is unknown.
    Unknown,
}

/// One container to kill before anything is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kill {
    /// Container id.
    pub id: String,
    /// Container name.
    pub name: String,
    /// Text of the `Killing` event.
    pub message: String,
    /// Why.
    pub reason: KillReason,
}

/// The decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodActions {
    /// Kill everything the pod runs, sandbox included.
    pub kill_pod: bool,
    /// Then make a new sandbox.
    pub create_sandbox: bool,
    /// The sandbox in use (or the last one).
    pub sandbox_id: String,
    /// Attempt number of the sandbox to make or in use.
    pub attempt: u32,
    /// Init containers to start, indices in order.
    pub init: Vec<usize>,
    /// Ephemeral containers to start, indices.
    pub ephemeral: Vec<usize>,
    /// Main containers to start, indices.
    pub main: Vec<usize>,
    /// Containers to kill.
    pub kill: Vec<Kill>,
    /// Running containers whose cgroup limits have to change, as (id, name).
    pub resize: Vec<(String, String)>,
}

/// Whether the pod needs a new sandbox; with the attempt number and the id in use.
#[must_use]
pub fn sandbox_changed(pod: &Pod, state: &RuntimePod) -> (bool, u32, String) {
    let Some(newest) = state.sandboxes.first() else { return (true, 0, String::new()) };
    let attempt = newest.metadata.as_ref().map_or(0, |m| m.attempt);
    let next = attempt + 1;
    let ready = state.sandboxes.iter().filter(|s| s.state() == cri::PodSandboxState::SandboxReady).count();
    if ready > 1 || newest.state() != cri::PodSandboxState::SandboxReady {
        return (true, next, newest.id.clone());
    }
    let network = newest
        .linux
        .as_ref()
        .and_then(|l| l.namespaces.as_ref())
        .and_then(|n| n.options.as_ref())
        .map_or(cri::NamespaceMode::Pod, cri::NamespaceOption::network);
    let wanted = if pod.is_host_network() { cri::NamespaceMode::Node } else { cri::NamespaceMode::Pod };
    if network != wanted {
        return (true, next, String::new());
    }
    let no_ip = newest.network.as_ref().is_some_and(|n| n.ip.is_empty());
    if !pod.is_host_network() && no_ip {
        return (true, next, newest.id.clone());
    }
    (false, attempt, newest.id.clone())
}

/// Whether a container that is not running has to be started.
#[must_use]
pub fn should_start(pod: &Pod, container: &Container, state: &RuntimePod) -> bool {
    if pod.is_deleted() {
        return false;
    }
    match state.container(&container.name) {
        None => true,
        Some(found) => match found.state {
            cri::ContainerState::ContainerRunning => false,
            cri::ContainerState::ContainerExited => restarts_after_exit(pod, container, found.exit_code),
            _ => true,
        },
    }
}

fn succeeded(container: &Container, state: &RuntimePod) -> bool {
    state
        .container(&container.name)
        .is_some_and(|c| c.state == cri::ContainerState::ContainerExited && c.exit_code == 0)
}

fn changed(container: &Container, found: &RuntimeContainer) -> bool {
    found.hash != container_hash_text(container)
}

/// Whether the amounts of `name` differ between what was given and what is wanted.
fn regiven(container: &Container, running: &RuntimeContainer, name: &str) -> bool {
    let Some(given) = &running.given else { return false };
    let wanted = container.resources.clone().unwrap_or_default();
    quantity(given.requests.as_ref(), name) != quantity(wanted.requests.as_ref(), name)
        || quantity(given.limits.as_ref(), name) != quantity(wanted.limits.as_ref(), name)
}

/// Whether what the container runs with differs from the spec's, and if so whether its resize
/// policy wants a restart for what changed. Not everything shows in a cgroup (a memory request,
/// amounts that round to the same share), so what was given last counts as well.
#[must_use]
pub fn resize_needed(pod: &Pod, container: &Container, running: &RuntimeContainer) -> Option<bool> {
    // The node's size only enters the OOM score, which a resize leaves alone.
    let wanted = container_limits(pod, container, i64::MAX);
    let in_force = |differs: &dyn Fn(&cri::LinuxContainerResources) -> bool| {
        running.resources.as_ref().is_some_and(differs)
    };
    let cpu = regiven(container, running, "cpu")
        || in_force(&|now| now.cpu_shares != wanted.cpu_shares || now.cpu_quota.max(0) != wanted.cpu_quota);
    let memory = regiven(container, running, "memory")
        || in_force(&|now| now.memory_limit_in_bytes.max(0) != wanted.memory_limit_in_bytes);
    let restarts = |name: &str| {
        container
            .resize_policy
            .iter()
            .flatten()
            .any(|p| p.resource_name == name && p.restart_policy == "RestartContainer")
    };
    (cpu || memory).then(|| (cpu && restarts("cpu")) || (memory && restarts("memory")))
}

/// Whether a running container does not have what the pod was granted.
#[must_use]
pub fn resize_under_way(pod: &Pod, state: &RuntimePod) -> bool {
    let sidecars = pod.init_containers().iter().filter(|c| crate::pod::is_sidecar(c));
    pod.spec().containers.iter().chain(sidecars).any(|container| {
        let running = state.container(&container.name).filter(|c| c.is_running());
        running.is_some_and(|running| resize_needed(pod, container, running).is_some())
    })
}

/// Compares `pod` with `state`.
#[must_use]
pub fn plan_pod_actions(pod: &Pod, state: &RuntimePod, probes: &dyn ProbeVerdicts) -> PodActions {
    let (create, attempt, sandbox_id) = sandbox_changed(pod, state);
    let mut actions =
        PodActions { kill_pod: create, create_sandbox: create, sandbox_id, attempt, ..PodActions::default() };
    if create {
        plan_new_sandbox(pod, state, &mut actions);
        return actions;
    }
    for (index, ephemeral) in pod.spec().ephemeral_containers.iter().flatten().enumerate() {
        if state.container(&ephemeral.name).is_none() {
            actions.ephemeral.push(index);
        }
    }
    let initialized = init::plan_init(pod, state, probes, &mut actions);
    if actions.kill_pod || !initialized {
        return actions;
    }
    let kept = plan_main(pod, state, probes, &mut actions);
    if kept == 0 && actions.main.is_empty() {
        actions.kill_pod = true;
        // Sidecars must not keep a finished pod alive.
        actions.init.clear();
    }
    actions
}

fn plan_new_sandbox(pod: &Pod, state: &RuntimePod, actions: &mut PodActions) {
    let never = RestartPolicy::of(pod) == RestartPolicy::Never;
    if never && actions.attempt != 0 && !state.containers.is_empty() {
        actions.create_sandbox = false;
        return;
    }
    let run_once = |c: &Container| match c.restart_policy.as_deref() {
        Some(own) => own == "OnFailure",
        None => RestartPolicy::of(pod) == RestartPolicy::OnFailure,
    };
    let containers = &pod.spec().containers;
    let start: Vec<_> = (0..containers.len())
        .filter(|i| !(run_once(&containers[*i]) && succeeded(&containers[*i], state)))
        .collect();
    let any_created = containers.iter().any(|c| state.container(&c.name).is_some());
    if start.is_empty() && any_created {
        actions.create_sandbox = false;
        return;
    }
    if pod.init_containers().is_empty() {
        actions.main = start;
    } else {
        actions.init = vec![0];
    }
}

/// Plans the main containers; returns how many stay as they are.
fn plan_main(pod: &Pod, state: &RuntimePod, probes: &dyn ProbeVerdicts, actions: &mut PodActions) -> usize {
    let mut kept = 0;
    for (index, container) in pod.spec().containers.iter().enumerate() {
        let found = state.container(&container.name);
        let Some(running) = found.filter(|c| c.is_running()) else {
            if should_start(pod, container, state) {
                actions.main.push(index);
                if let Some(unknown) = found.filter(|c| c.state == cri::ContainerState::ContainerUnknown) {
                    actions.kill.push(Kill {
                        id: unknown.id.clone(),
                        name: unknown.name.clone(),
                        message: "Container is in \"unknown\" state, try killing it before restart"
                            .to_owned(),
                        reason: KillReason::Unknown,
                    });
                }
            }
            continue;
        };
        let mut restart = match container.restart_policy.as_deref() {
            Some(own) => own != "Never",
            None => RestartPolicy::of(pod) != RestartPolicy::Never,
        };
        let (mut message, reason) = if changed(container, running) {
            restart = true;
            (format!("Container {} definition changed", container.name), KillReason::Other)
        } else if probes.liveness(&running.id) == Some(ProbeResult::Failure) {
            (format!("Container {} failed liveness probe", container.name), KillReason::Liveness)
        } else if probes.startup(&running.id) == Some(ProbeResult::Failure) {
            (format!("Container {} failed startup probe", container.name), KillReason::Startup)
        } else if let Some(restarts) = resize_needed(pod, container, running) {
            if !restarts {
                actions.resize.push((running.id.clone(), running.name.clone()));
                kept += 1;
                continue;
            }
            restart = true;
            (format!("Container {} resize requires restart", container.name), KillReason::Other)
        } else {
            kept += 1;
            continue;
        };
        if restart {
            message.push_str(", will be restarted");
            actions.main.push(index);
        }
        actions.kill.push(Kill { id: running.id.clone(), name: running.name.clone(), message, reason });
    }
    kept
}

#[cfg(test)]
mod tests;
