//! Container statuses.

use copepod_cri::v1 as cri;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, ContainerUser, LinuxContainerUser, Pod, PodStatus, ResourceRequirements,
    VolumeMountStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::StatusInput;
use crate::pod::{PodExt, ephemeral_as_container, is_sidecar};
use crate::prober::ProbeKind;
use crate::runtime::plan::{ProbeResult, resize_needed, should_start};
use crate::types::RuntimeContainer;

/// Fills the three lists of `status`.
pub(super) fn render_containers(input: &StatusInput<'_>, old: &PodStatus, status: &mut PodStatus) {
    let pod = input.pod;
    let spec = pod.spec();
    let has_init = !pod.init_containers().is_empty();
    let mut main: Vec<_> = spec
        .containers
        .iter()
        .map(|c| one(input, c, old.container_statuses.as_deref(), has_init, Role::Main))
        .collect();
    main.sort_by(|a, b| a.name.cmp(&b.name));
    status.container_statuses = Some(main);
    if has_init {
        let init = pod.init_containers().iter().map(|c| {
            let role = if is_sidecar(c) { Role::Main } else { Role::Init };
            one(input, c, old.init_container_statuses.as_deref(), true, role)
        });
        status.init_container_statuses = Some(init.collect());
    }
    if let Some(list) = spec.ephemeral_containers.as_ref().filter(|l| !l.is_empty()) {
        let ephemeral = list.iter().map(|e| {
            one(
                input,
                &ephemeral_as_container(e),
                old.ephemeral_container_statuses.as_deref(),
                false,
                Role::Ephemeral,
            )
        });
        status.ephemeral_container_statuses = Some(ephemeral.collect());
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Main,
    Init,
    Ephemeral,
}

fn one(
    input: &StatusInput<'_>,
    container: &Container,
    old: Option<&[ContainerStatus]>,
    has_init: bool,
    role: Role,
) -> ContainerStatus {
    let old = old.unwrap_or_default().iter().find(|s| s.name == container.name);
    let mut found = input.state.containers.iter().filter(|c| c.name == container.name);
    let mut status = match found.next() {
        Some(newest) => {
            let mut status = from_runtime(input, container, newest);
            status.last_state = found
                .next()
                .map(|previous| state_of(previous, input.runtime_name))
                .filter(|s| s.terminated.is_some())
                .or_else(|| old.and_then(|o| kept_last_state(o, newest, input.runtime_name)))
                .or_else(|| Some(ContainerState::default()));
            status
        }
        None => {
            let mut status = without_runtime(container, old, has_init, input.terminal);
            if role == Role::Init {
                assume_completed(input, &mut status);
            }
            status
        }
    };
    waiting_for_failure(input, container, &mut status);
    readiness(input, container, &mut status, role);
    status
}

/// The last state we told before, when the runtime has forgotten the run it is about.
fn kept_last_state(
    old: &ContainerStatus,
    newest: &RuntimeContainer,
    runtime: &str,
) -> Option<ContainerState> {
    if old.container_id.as_deref() != Some(newest.status_id(runtime).as_str()) {
        return old.state.clone().filter(|s| s.terminated.is_some());
    }
    old.last_state.clone().filter(|s| s.terminated.is_some())
}

fn from_runtime(input: &StatusInput<'_>, container: &Container, found: &RuntimeContainer) -> ContainerStatus {
    let user = found.user.as_ref().map(|u| ContainerUser {
        linux: Some(LinuxContainerUser {
            uid: u.uid,
            gid: u.gid,
            supplemental_groups: Some(u.supplemental_groups.clone()).filter(|g| !g.is_empty()),
        }),
    });
    let signal = found.stop_signal.as_str_name().trim_start_matches("SIGNAL_");
    let declared = container.lifecycle.as_ref().and_then(|l| l.stop_signal.as_ref());
    ContainerStatus {
        allocated_resources: container
            .resources
            .as_ref()
            .and_then(|r| r.requests.clone())
            .filter(|r| !r.is_empty()),
        container_id: Some(found.status_id(input.runtime_name)),
        image: found.image.clone(),
        image_id: found.image_id.clone(),
        name: container.name.clone(),
        resources: Some(resources_in_force(input, container, found)),
        restart_count: found.restart_count,
        state: Some(state_of(found, input.runtime_name)),
        stop_signal: declared.map(|_| signal.replace("PLUS", "+").replace("MINUS", "-")),
        user,
        volume_mounts: mount_statuses(container),
        ..ContainerStatus::default()
    }
}

/// The spec's resources once they are in force; until then what was told before.
fn resources_in_force(
    input: &StatusInput<'_>,
    container: &Container,
    found: &RuntimeContainer,
) -> ResourceRequirements {
    let spec = || container.resources.clone().unwrap_or_default();
    if !found.is_running() || resize_needed(input.pod, container, found).is_none() {
        return spec();
    }
    let id = found.status_id(input.runtime_name);
    let before = input.previous.into_iter().flat_map(|s| s.container_statuses.iter().flatten());
    let mut before = before.filter(|s| s.container_id.as_deref() == Some(id.as_str()));
    before.find_map(|s| s.resources.clone()).unwrap_or_else(spec)
}

fn mount_statuses(container: &Container) -> Option<Vec<VolumeMountStatus>> {
    let mounts = container.volume_mounts.as_ref().filter(|m| !m.is_empty())?;
    let statuses = mounts.iter().map(|m| VolumeMountStatus {
        name: m.name.clone(),
        mount_path: m.mount_path.clone(),
        read_only: m.read_only,
        recursive_read_only: m.read_only.filter(|r| *r).map(|_| "Disabled".to_owned()),
        ..VolumeMountStatus::default()
    });
    Some(statuses.collect())
}

fn known(time: Timestamp) -> Option<Time> {
    (time > Timestamp::UNIX_EPOCH).then_some(Time(time))
}

fn state_of(found: &RuntimeContainer, runtime: &str) -> ContainerState {
    match found.state {
        cri::ContainerState::ContainerRunning => ContainerState {
            running: Some(ContainerStateRunning { started_at: known(found.started_at) }),
            ..ContainerState::default()
        },
        cri::ContainerState::ContainerExited => ContainerState {
            terminated: Some(ContainerStateTerminated {
                container_id: Some(found.status_id(runtime)),
                exit_code: found.exit_code,
                finished_at: known(found.finished_at),
                message: Some(found.message.clone()).filter(|m| !m.is_empty()),
                reason: Some(found.reason.clone()).filter(|r| !r.is_empty()),
                signal: None,
                started_at: known(found.started_at),
            }),
            ..ContainerState::default()
        },
        cri::ContainerState::ContainerCreated => waiting("ContainerCreating", None),
        cri::ContainerState::ContainerUnknown => waiting("ContainerStatusUnknown", None),
    }
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    ContainerState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message }),
        ..ContainerState::default()
    }
}

/// A container the runtime does not hold: not yet made, or forgotten.
fn without_runtime(
    container: &Container,
    old: Option<&ContainerStatus>,
    has_init: bool,
    terminal: bool,
) -> ContainerStatus {
    let reason = if has_init { "PodInitializing" } else { "ContainerCreating" };
    let mut status = ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        state: Some(waiting(reason, None)),
        last_state: Some(ContainerState::default()),
        volume_mounts: mount_statuses(container),
        ..ContainerStatus::default()
    };
    let Some(old) = old else { return status };
    let old_state = old.state.clone().unwrap_or_default();
    if old_state.terminated.is_some() {
        return old.clone();
    }
    status.restart_count = old.restart_count;
    status.last_state = old.last_state.clone().or(status.last_state);
    if old_state.running.is_some() {
        // It ran and left no trace: that is an end, with a code nobody knows.
        let mut lost = lost_state();
        if let Some(ended) = lost.terminated.as_mut() {
            ended.message = Some("The container could not be located when the pod was deleted.  The container used to be Running".to_owned());
        }
        if terminal {
            status.state = Some(lost);
        } else {
            status.restart_count += 1;
            status.last_state = Some(lost);
        }
    }
    status
}

/// An init container that left no trace has done its work when a main container was made after it.
fn assume_completed(input: &StatusInput<'_>, status: &mut ContainerStatus) {
    let waits = status.state.as_ref().is_some_and(|s| s.waiting.is_some());
    let mut mains = input.pod.spec().containers.iter();
    if !waits || !mains.any(|c| input.state.container(&c.name).is_some()) {
        return;
    }
    let text = "Unable to get init container status from container runtime and pod has been initialized, \
                treat it as exited normally";
    status.state = Some(ContainerState {
        terminated: Some(ContainerStateTerminated {
            reason: Some("Completed".to_owned()),
            message: Some(text.to_owned()),
            ..ContainerStateTerminated::default()
        }),
        ..ContainerState::default()
    });
}

fn lost_state() -> ContainerState {
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            exit_code: 137,
            reason: Some("ContainerStatusUnknown".to_owned()),
            message: Some("The container could not be located when the pod was terminated".to_owned()),
            ..ContainerStateTerminated::default()
        }),
        ..ContainerState::default()
    }
}

/// A failed start shows as waiting, with the run before it as last state.
fn waiting_for_failure(input: &StatusInput<'_>, container: &Container, status: &mut ContainerStatus) {
    let Some(failure) = input.failures.get(&container.name) else { return };
    let running = status.state.as_ref().is_some_and(|s| s.running.is_some());
    if running || input.terminal || !should_start(input.pod, container, input.state) {
        return;
    }
    if let Some(ended) = status.state.take().filter(|s| s.terminated.is_some()) {
        status.last_state = Some(ended);
    }
    status.state = Some(waiting(&failure.reason, Some(failure.message.clone())));
}

fn readiness(input: &StatusInput<'_>, container: &Container, status: &mut ContainerStatus, role: Role) {
    let state = status.state.clone().unwrap_or_default();
    let id = input.state.container(&container.name).map(|c| c.id.clone()).unwrap_or_default();
    let running = state.running.is_some();
    let passed =
        |kind, declared: bool| !declared || input.probes.get(&id, kind) == Some(ProbeResult::Success);
    match role {
        Role::Ephemeral => {
            status.ready = false;
        }
        Role::Init => {
            status.started = Some(running);
            status.ready = state.terminated.is_some_and(|t| t.exit_code == 0);
        }
        Role::Main => {
            let started = running && passed(ProbeKind::Startup, container.startup_probe.is_some());
            status.started = Some(started);
            status.ready = started && passed(ProbeKind::Readiness, container.readiness_probe.is_some());
        }
    }
}

/// Whether any main container has run, by its status.
pub(super) fn any_main_started(pod: &Pod, status: &PodStatus) -> bool {
    if pod.init_containers().is_empty() {
        return true;
    }
    status.container_statuses.iter().flatten().any(|c| {
        let state = c.state.clone().unwrap_or_default();
        let last = c.last_state.clone().unwrap_or_default();
        state.running.is_some() || state.terminated.is_some() || last.terminated.is_some()
    })
}

/// Marks a container that is gone as terminated, if nothing said so yet.
pub(super) fn force_terminated(status: &mut ContainerStatus) {
    if status.state.as_ref().is_none_or(|s| s.terminated.is_none()) {
        status.state = Some(lost_state());
    }
    status.ready = false;
    status.started = Some(false);
}
