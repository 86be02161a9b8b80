//! The pod's phase from its containers' statuses.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};

use crate::pod::{PodExt, is_sidecar, restarts_after_exit};

/// Whether a phase is final.
#[must_use]
pub fn is_terminal(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

#[derive(Default)]
struct Counts {
    pending_init: usize,
    pending_sidecars: usize,
    failed_init: usize,
    unknown: usize,
    running: usize,
    waiting: usize,
    stopped: usize,
    stopped_for_good: usize,
    succeeded: usize,
}

/// The phase, by upstream's counting rules.
#[must_use]
pub fn pod_phase(pod: &Pod, statuses: &[ContainerStatus], terminal: bool, initialized: bool) -> String {
    let mut n = Counts::default();
    let find = |c: &Container| statuses.iter().find(|s| s.name == c.name);
    for container in pod.init_containers() {
        if is_sidecar(container) {
            count_sidecar(find(container), &mut n);
        } else {
            count_init(pod, container, find(container), &mut n);
        }
    }
    for container in &pod.spec().containers {
        count_main(pod, container, find(container), &mut n);
    }
    decide(pod, &n, terminal, initialized).to_owned()
}

fn exit_code(status: &ContainerStatus) -> Option<i32> {
    let state = status.state.as_ref()?;
    let last = || status.last_state.as_ref().and_then(|s| s.terminated.as_ref());
    match (&state.terminated, &state.waiting) {
        (Some(ended), _) => Some(ended.exit_code),
        (None, Some(_)) => last().map(|t| t.exit_code),
        _ => None,
    }
}

fn count_init(pod: &Pod, container: &Container, status: Option<&ContainerStatus>, n: &mut Counts) {
    match status.and_then(exit_code) {
        None => n.pending_init += 1,
        Some(0) => {}
        Some(code) if restarts_after_exit(pod, container, code) => n.pending_init += 1,
        Some(_) => n.failed_init += 1,
    }
}

fn count_sidecar(status: Option<&ContainerStatus>, n: &mut Counts) {
    let Some(status) = status else {
        n.unknown += 1;
        return;
    };
    let state = status.state.clone().unwrap_or_default();
    if state.running.is_some() {
        n.running += 1;
        if status.started != Some(true) {
            n.pending_sidecars += 1;
        }
    } else if state.terminated.is_some() {
    } else if state.waiting.is_some() {
        if status.last_state.as_ref().is_none_or(|s| s.terminated.is_none()) {
            n.pending_sidecars += 1;
            n.waiting += 1;
        }
    } else {
        n.pending_sidecars += 1;
        n.unknown += 1;
    }
}

fn count_main(pod: &Pod, container: &Container, status: Option<&ContainerStatus>, n: &mut Counts) {
    let Some(status) = status else {
        n.unknown += 1;
        return;
    };
    let state = status.state.clone().unwrap_or_default();
    match exit_code(status) {
        Some(code) => {
            n.stopped += 1;
            if !restarts_after_exit(pod, container, code) {
                n.stopped_for_good += 1;
            }
            if code == 0 && state.terminated.is_some() {
                n.succeeded += 1;
            }
        }
        None if state.running.is_some() => n.running += 1,
        None if state.waiting.is_some() => n.waiting += 1,
        None => n.unknown += 1,
    }
}

fn decide(pod: &Pod, n: &Counts, terminal: bool, initialized: bool) -> &'static str {
    if n.failed_init > 0 {
        return "Failed";
    }
    if n.pending_init > 0 || (n.pending_sidecars > 0 && !initialized) || n.waiting > 0 {
        return "Pending";
    }
    if n.running > 0 && n.unknown == 0 {
        return "Running";
    }
    if n.running == 0 && n.stopped > 0 && n.unknown == 0 {
        let ended = if n.stopped == n.succeeded { "Succeeded" } else { "Failed" };
        if terminal && !pod.is_static() {
            return ended;
        }
        return if n.stopped == n.stopped_for_good { ended } else { "Running" };
    }
    "Pending"
}
