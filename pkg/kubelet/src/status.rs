//! Pod status: rendered purely from spec and runtime state, then kept and written by the manager.

pub mod conditions;
pub mod containers;
pub mod manager;
pub mod phase;

use std::collections::HashMap;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{HostIP, Pod, PodCondition, PodIP, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::pod::resources::Qos;
use crate::pod::{PodExt, is_sidecar};
use crate::prober::ProbeResults;
use crate::runtime::StartFailure;
use crate::types::RuntimePod;

/// Everything a status is rendered from.
#[derive(Debug, Clone, Copy)]
pub struct StatusInput<'a> {
    /// The pod, with the status the API knows.
    pub pod: &'a Pod,
    /// The status rendered last, if any.
    pub previous: Option<&'a PodStatus>,
    /// What the runtime holds.
    pub state: &'a RuntimePod,
    /// Why containers did not start, by name.
    pub failures: &'a HashMap<String, StartFailure>,
    /// Probe results.
    pub probes: &'a ProbeResults,
    /// What is to be said about a resize.
    pub resize: &'a [PodCondition],
    /// Whether nothing will be started any more.
    pub terminal: bool,
    /// The node's addresses; empty when not known.
    pub host_ips: &'a [IpAddr],
    /// Scheme of container ids (`containerd`).
    pub runtime_name: &'a str,
    /// Now.
    pub now: Timestamp,
}

/// Renders the status.
#[must_use]
pub fn render_status(input: StatusInput<'_>) -> PodStatus {
    let pod = input.pod;
    let stored = pod.status.clone().unwrap_or_default();
    let old = input.previous.cloned().unwrap_or_else(|| stored.clone());
    let mut status = PodStatus {
        nominated_node_name: stored.nominated_node_name.clone(),
        resource_claim_statuses: stored.resource_claim_statuses.clone(),
        qos_class: Some(Qos::of(pod).as_str().to_owned()),
        start_time: old.start_time.clone().or(Some(Time(input.now))),
        observed_generation: pod.metadata.generation.filter(|g| *g > 0),
        // The pod comes with the resources it was granted.
        allocated_resources: pod.spec().resources.as_ref().and_then(|r| r.requests.clone()),
        resources: pod.spec().resources.clone(),
        ..PodStatus::default()
    };
    containers::render_containers(&input, &old, &mut status);
    addresses(&input, &old, &mut status);
    let all = conditions::all_statuses(&status);
    let initialized = started_in_sandbox(&input);
    let mut phase = phase::pod_phase(pod, &all, input.terminal, initialized);
    for known in [old.phase.as_deref(), stored.phase.as_deref()].into_iter().flatten() {
        // A terminal phase is final.
        if phase::is_terminal(known) {
            known.clone_into(&mut phase);
            break;
        }
    }
    if old.phase.as_deref() == Some(phase.as_str()) {
        status.reason = old.reason.clone().or(stored.reason);
        status.message = old.message.clone().or(stored.message);
    }
    status.phase = Some(phase);
    status.conditions = Some(conditions::render_conditions(&input, &status, &old));
    status
}

/// Whether a main container has run in the present sandbox.
fn started_in_sandbox(input: &StatusInput<'_>) -> bool {
    let Some(sandbox) = input.state.sandboxes.first() else { return false };
    input.pod.spec().containers.iter().any(|main| {
        input.state.containers.iter().any(|c| {
            c.name == main.name
                && c.sandbox_id == sandbox.id
                && c.state != copepod_cri::v1::ContainerState::ContainerCreated
        })
    })
}

fn addresses(input: &StatusInput<'_>, old: &PodStatus, status: &mut PodStatus) {
    let hosts: Vec<String> = input.host_ips.iter().map(ToString::to_string).collect();
    if let Some(first) = hosts.first() {
        status.host_ip = Some(first.clone());
        status.host_ips = Some(hosts.iter().map(|ip| HostIP { ip: ip.clone() }).collect());
    }
    let ips: Vec<String> = if input.pod.is_host_network() {
        hosts
    } else if !input.state.ips.is_empty() {
        input.state.ips.clone()
    } else {
        // A stopped sandbox has no address any more; the status keeps it.
        old.pod_ips.iter().flatten().map(|p| p.ip.clone()).collect()
    };
    if let Some(first) = ips.first() {
        status.pod_ip = Some(first.clone());
        status.pod_ips = Some(ips.into_iter().map(|ip| PodIP { ip }).collect());
    }
}

/// The status of a pod the node refuses: it never had anything else to tell.
#[must_use]
pub fn refused_status(pod: &Pod, reason: &str, message: &str, now: Timestamp) -> PodStatus {
    failed_status(pod, Some(&PodStatus::default()), reason, message, now)
}

/// The status of a pod that the node ends.
#[must_use]
pub fn failed_status(
    pod: &Pod,
    previous: Option<&PodStatus>,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> PodStatus {
    let mut status = previous.cloned().or_else(|| pod.status.clone()).unwrap_or_default();
    status.phase = Some("Failed".to_owned());
    status.reason = Some(reason.to_owned());
    status.message = Some(message.to_owned());
    status.qos_class = Some(Qos::of(pod).as_str().to_owned());
    status.start_time.get_or_insert(Time(now));
    status.observed_generation = pod.metadata.generation.filter(|g| *g > 0);
    status
}

/// The last status of a pod whose containers are gone: everything terminated, a terminal phase.
#[must_use]
pub fn finished_status(pod: &Pod, mut status: PodStatus) -> PodStatus {
    let initialized = containers::any_main_started(pod, &status);
    let sidecars: Vec<_> =
        pod.init_containers().iter().filter(|c| is_sidecar(c)).map(|c| c.name.clone()).collect();
    for container in status.container_statuses.iter_mut().flatten() {
        if initialized {
            containers::force_terminated(container);
        }
    }
    for container in status.init_container_statuses.iter_mut().flatten() {
        if container.state.as_ref().is_some_and(|s| s.running.is_some())
            || (initialized && sidecars.contains(&container.name))
        {
            containers::force_terminated(container);
        }
    }
    let phase = status.phase.clone().unwrap_or_default();
    if !phase::is_terminal(&phase) && !pod.is_static() {
        let failed =
            status.container_statuses.iter().flatten().any(|c| {
                c.state.as_ref().and_then(|s| s.terminated.as_ref()).is_none_or(|t| t.exit_code != 0)
            });
        status.phase = Some(if failed { "Failed" } else { "Succeeded" }.to_owned());
    }
    status
}

/// Keeps the transition times of conditions whose status did not change, stamps the others.
pub fn stamp_transitions(status: &mut PodStatus, previous: Option<&PodStatus>, now: Timestamp) {
    let before = |kind: &str| -> Option<&PodCondition> {
        previous?.conditions.iter().flatten().find(|c| c.type_ == kind)
    };
    for condition in status.conditions.iter_mut().flatten() {
        let time = match before(&condition.type_) {
            Some(old) if old.status == condition.status => old.last_transition_time.clone(),
            _ => None,
        };
        condition.last_transition_time = Some(time.unwrap_or(Time(now)));
    }
}

#[cfg(test)]
mod tests;
