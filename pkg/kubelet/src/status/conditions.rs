//! The conditions that the kubelet owns.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus};

use super::StatusInput;
use crate::pod::{PodExt, is_sidecar};
use crate::runtime::plan::sandbox_changed;

/// Condition types rendered here; all others are kept as the API has them.
const OWNED: &[&str] = &[
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    "PodResizePending",
    "PodResizeInProgress",
    "AllContainersRestarting",
];

/// Init and main statuses together.
#[must_use]
pub fn all_statuses(status: &PodStatus) -> Vec<ContainerStatus> {
    status
        .init_container_statuses
        .iter()
        .flatten()
        .chain(status.container_statuses.iter().flatten())
        .cloned()
        .collect()
}

fn condition(pod: &Pod, kind: &str, ok: bool, reason: &str, message: &str) -> PodCondition {
    let text = |t: &str| Some(t.to_owned()).filter(|t| !t.is_empty());
    PodCondition {
        type_: kind.to_owned(),
        status: if ok { "True" } else { "False" }.to_owned(),
        reason: text(reason),
        message: text(message),
        observed_generation: pod.metadata.generation.filter(|g| *g > 0),
        ..PodCondition::default()
    }
}

/// Renders the conditions, foreign ones first.
pub(super) fn render_conditions(
    input: &StatusInput<'_>,
    status: &PodStatus,
    old: &PodStatus,
) -> Vec<PodCondition> {
    let pod = input.pod;
    let stored = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let mut list: Vec<_> = stored.iter().filter(|c| !OWNED.contains(&c.type_.as_str())).cloned().collect();
    if let Some(disruption) = old.conditions.iter().flatten().find(|c| c.type_ == "DisruptionTarget")
        && !list.iter().any(|c| c.type_ == "DisruptionTarget")
    {
        list.push(disruption.clone());
    }
    let phase = status.phase.as_deref().unwrap_or_default();
    if !super::phase::is_terminal(phase) {
        list.extend(input.resize.iter().cloned());
    }
    let statuses = all_statuses(status);
    let (no_sandbox, _, _) = sandbox_changed(pod, input.state);
    list.push(condition(pod, "PodReadyToStartContainers", !no_sandbox, "", ""));
    list.push(initialized(pod, &statuses, phase));
    let containers = containers_ready(pod, &statuses, phase);
    list.push(ready(pod, &containers, &list));
    list.push(containers);
    list.push(condition(pod, "PodScheduled", true, "", ""));
    list
}

/// Names in Go's list form.
fn names(list: &[&str]) -> String {
    format!("[{}]", list.join(" "))
}

fn unready_text(unknown: &[&str], bad: &[&str], word: &str) -> String {
    let mut parts = Vec::new();
    if !unknown.is_empty() {
        parts.push(format!("containers with unknown status: {}", names(unknown)));
    }
    if !bad.is_empty() {
        parts.push(format!("containers with {word} status: {}", names(bad)));
    }
    parts.join(", ")
}

fn initialized(pod: &Pod, statuses: &[ContainerStatus], phase: &str) -> PodCondition {
    let mut unknown = Vec::new();
    let mut incomplete = Vec::new();
    for container in pod.init_containers() {
        match statuses.iter().find(|s| s.name == container.name) {
            None => unknown.push(container.name.as_str()),
            Some(s) if is_sidecar(container) && s.started != Some(true) => {
                incomplete.push(container.name.as_str())
            }
            Some(s) if !is_sidecar(container) && !s.ready => incomplete.push(container.name.as_str()),
            Some(_) => {}
        }
    }
    if phase == "Succeeded" && unknown.is_empty() {
        return condition(pod, "Initialized", true, "PodCompleted", "");
    }
    let main_started = pod.spec().containers.iter().any(|c| {
        statuses.iter().any(|s| {
            s.name == c.name
                && (s.state.as_ref().is_some_and(|st| st.running.is_some() || st.terminated.is_some())
                    || s.last_state.as_ref().is_some_and(|st| st.terminated.is_some()))
        })
    });
    let text = unready_text(&unknown, &incomplete, "incomplete");
    if main_started || text.is_empty() {
        return condition(pod, "Initialized", true, "", "");
    }
    condition(pod, "Initialized", false, "ContainersNotInitialized", &text)
}

fn containers_ready(pod: &Pod, statuses: &[ContainerStatus], phase: &str) -> PodCondition {
    const KIND: &str = "ContainersReady";
    let mut unknown = Vec::new();
    let mut unready = Vec::new();
    let sidecars = pod.init_containers().iter().filter(|c| is_sidecar(c));
    for container in sidecars.chain(&pod.spec().containers) {
        match statuses.iter().find(|s| s.name == container.name) {
            None => unknown.push(container.name.as_str()),
            Some(s) if !s.ready => unready.push(container.name.as_str()),
            Some(_) => {}
        }
    }
    if phase == "Succeeded" && unknown.is_empty() {
        return condition(pod, KIND, false, "PodCompleted", "");
    }
    if phase == "Failed" {
        return condition(pod, KIND, false, "PodFailed", "");
    }
    let text = unready_text(&unknown, &unready, "unready");
    if text.is_empty() {
        return condition(pod, KIND, true, "", "");
    }
    condition(pod, KIND, false, "ContainersNotReady", &text)
}

fn ready(pod: &Pod, containers: &PodCondition, all: &[PodCondition]) -> PodCondition {
    if containers.status != "True" {
        return PodCondition { type_: "Ready".to_owned(), ..containers.clone() };
    }
    let mut problems = Vec::new();
    for gate in pod.spec().readiness_gates.iter().flatten() {
        let kind = &gate.condition_type;
        match all.iter().find(|c| c.type_ == *kind) {
            None => problems
                .push(format!("corresponding condition of pod readiness gate {kind:?} does not exist.")),
            Some(c) if c.status != "True" => problems
                .push(format!("the status of pod readiness gate {kind:?} is not \"True\", but {}", c.status)),
            Some(_) => {}
        }
    }
    if problems.is_empty() {
        return condition(pod, "Ready", true, "", "");
    }
    condition(pod, "Ready", false, "ReadinessGatesNotReady", &problems.join(", "))
}
