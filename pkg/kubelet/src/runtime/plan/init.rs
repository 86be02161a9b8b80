//! Init containers and sidecars.
//!
//! The list is walked backwards: finished init containers may have been removed, so the last one
//! with a trace tells how far initialisation went; everything before it only matters when it is a
//! sidecar.

use copepod_cri::v1::ContainerState;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::{Kill, KillReason, PodActions, ProbeResult, ProbeVerdicts, changed, resize_needed, should_start};
use crate::pod::{PodExt, RestartPolicy, is_sidecar};
use crate::types::{RuntimeContainer, RuntimePod};

/// What one init container contributes.
#[derive(Default)]
struct Verdict {
    /// Start this one (again).
    start: bool,
    /// This one is done (or a started sidecar): the next may start.
    done: bool,
    /// The pod failed.
    fatal: bool,
    /// Change its limits.
    resize: bool,
    /// Kill it first.
    kill: Option<(String, KillReason)>,
}

/// Plans init containers; returns whether initialisation is complete.
pub(super) fn plan_init(
    pod: &Pod,
    state: &RuntimePod,
    probes: &dyn ProbeVerdicts,
    actions: &mut PodActions,
) -> bool {
    let inits = pod.init_containers();
    if inits.is_empty() {
        return true;
    }
    let in_sandbox = |c: &&RuntimeContainer| c.sandbox_id == actions.sandbox_id;
    let mut initialized = pod.spec().containers.iter().any(|main| {
        state.containers.iter().filter(in_sandbox).any(|c| {
            c.name == main.name
                && matches!(c.state, ContainerState::ContainerRunning | ContainerState::ContainerExited)
        })
    });
    let mut reached = initialized;
    let mut start = Vec::new();
    for (index, container) in inits.iter().enumerate().rev() {
        let found = state.containers.iter().filter(in_sandbox).find(|c| c.name == container.name);
        let Some(found) = found else {
            if reached && is_sidecar(container) {
                start.push(index);
            }
            continue;
        };
        if reached && !is_sidecar(container) {
            continue;
        }
        let verdict = judge(pod, container, found, state, probes);
        if verdict.fatal {
            actions.kill_pod = true;
            actions.init.clear();
            return false;
        }
        if let Some((message, reason)) = verdict.kill {
            actions.kill.push(Kill { id: found.id.clone(), name: found.name.clone(), message, reason });
        }
        if verdict.resize {
            actions.resize.push((found.id.clone(), found.name.clone()));
        }
        if verdict.done {
            if index + 1 == inits.len() {
                initialized = true;
            } else if !reached {
                start.push(index + 1);
            }
        }
        if verdict.start {
            start.push(index);
        }
        reached = true;
    }
    if !reached {
        start.push(0);
    }
    start.reverse();
    actions.init = start;
    initialized
}

fn judge(
    pod: &Pod,
    container: &Container,
    found: &RuntimeContainer,
    state: &RuntimePod,
    probes: &dyn ProbeVerdicts,
) -> Verdict {
    match found.state {
        ContainerState::ContainerCreated => Verdict { start: true, ..Verdict::default() },
        ContainerState::ContainerRunning if is_sidecar(container) => {
            judge_sidecar(pod, container, found, probes)
        }
        ContainerState::ContainerRunning => Verdict::default(),
        ContainerState::ContainerExited if is_sidecar(container) => {
            Verdict { start: true, ..Verdict::default() }
        }
        ContainerState::ContainerExited if found.exit_code == 0 => {
            Verdict { done: true, ..Verdict::default() }
        }
        ContainerState::ContainerExited => {
            let again = should_start(pod, container, state);
            Verdict { start: again, fatal: !again, ..Verdict::default() }
        }
        ContainerState::ContainerUnknown => {
            let policy = match container.restart_policy.as_deref() {
                Some(own) => RestartPolicy::parse(Some(own)),
                None => RestartPolicy::of(pod),
            };
            let again = is_sidecar(container) || policy != RestartPolicy::Never;
            let text = "Init container is in \"unknown\" state, try killing it before restart".to_owned();
            Verdict {
                start: again,
                fatal: !again,
                kill: Some((text, KillReason::Unknown)),
                ..Verdict::default()
            }
        }
    }
}

fn judge_sidecar(
    pod: &Pod,
    container: &Container,
    found: &RuntimeContainer,
    probes: &dyn ProbeVerdicts,
) -> Verdict {
    let failed = |what: &str, reason| Verdict {
        start: true,
        kill: Some((format!("Init container {} {what}", container.name), reason)),
        ..Verdict::default()
    };
    if container.startup_probe.is_some() {
        match probes.startup(&found.id) {
            Some(ProbeResult::Success) => {}
            Some(ProbeResult::Failure) => return failed("failed startup probe", KillReason::Startup),
            _ => return Verdict::default(),
        }
    }
    let mut verdict = Verdict { done: true, ..Verdict::default() };
    if changed(container, found) {
        verdict = Verdict { done: true, ..failed("definition changed", KillReason::Other) };
    } else if container.liveness_probe.is_some() && probes.liveness(&found.id) == Some(ProbeResult::Failure) {
        verdict = Verdict { done: true, ..failed("failed liveness probe", KillReason::Liveness) };
    } else if let Some(restarts) = resize_needed(pod, container, found) {
        verdict = if restarts {
            Verdict { done: true, ..failed("resize requires restart", KillReason::Other) }
        } else {
            Verdict { resize: true, ..verdict }
        };
    }
    verdict
}
