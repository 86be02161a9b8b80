//! Stopping containers: grace periods, preStop hooks, the order of sidecars, sandboxes last.

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Container, Pod};
use tokio::time::{Instant, timeout};

use copepod_cri::{CriError, is_not_found, v1 as cri};

use super::manager::{PodRuntime, field_path};
use super::plan::KillReason;
use super::{hooks, labels};
use crate::pod::{PodExt, find_container, is_sidecar};
use crate::ports::EventKind;
use crate::types::{RuntimeContainer, RuntimePod};

/// Containers always get this long, so that a clean stop is possible.
const MIN_GRACE: i64 = 2;

/// The grace period of one container, seconds.
#[must_use]
pub fn grace_for(pod: &Pod, container: &Container, reason: KillReason) -> i64 {
    if let Some(grace) = pod.metadata.deletion_grace_period_seconds {
        return grace;
    }
    let probe = match reason {
        KillReason::Startup => container.startup_probe.as_ref(),
        KillReason::Liveness => container.liveness_probe.as_ref(),
        _ => None,
    };
    probe
        .and_then(|p| p.termination_grace_period_seconds)
        .or_else(|| pod.spec().termination_grace_period_seconds)
        .unwrap_or(MIN_GRACE)
}

/// Groups of containers in the order they stop: main and plain init containers together, then
/// sidecars, the last started first.
#[must_use]
pub fn stop_order(pod: &Pod, running: &[RuntimeContainer]) -> Vec<Vec<RuntimeContainer>> {
    let sidecars: Vec<_> =
        pod.init_containers().iter().filter(|c| is_sidecar(c)).map(|c| c.name.as_str()).collect();
    let (side, main): (Vec<_>, Vec<_>) =
        running.iter().cloned().partition(|c| sidecars.contains(&c.name.as_str()));
    let mut groups = vec![main];
    for name in sidecars.iter().rev() {
        groups.push(side.iter().filter(|c| c.name == *name).cloned().collect());
    }
    groups.retain(|g| !g.is_empty());
    groups
}

/// A pod made from labels, for containers whose pod no source names any more.
#[must_use]
pub fn restore_pod(state: &RuntimePod) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.uid = Some(state.uid.clone());
    pod.metadata.name = Some(state.name.clone());
    pod.metadata.namespace = Some(state.namespace.clone());
    let containers = state.containers.iter().map(|c| Container {
        name: c.name.clone(),
        lifecycle: c.pre_stop.as_deref().and_then(|json| serde_json::from_str(json).ok()).map(|pre_stop| {
            k8s_openapi::api::core::v1::Lifecycle { pre_stop: Some(pre_stop), ..Default::default() }
        }),
        ..Container::default()
    });
    pod.spec = Some(k8s_openapi::api::core::v1::PodSpec {
        containers: containers.collect(),
        termination_grace_period_seconds: state.containers.iter().find_map(|c| c.grace_seconds),
        ..Default::default()
    });
    pod
}

impl PodRuntime {
    /// Kills one container: event, preStop hook, stop signal, and the kill when time is up.
    ///
    /// # Errors
    /// When the runtime cannot stop it; a container that is gone already is success.
    pub async fn kill_container(
        &self,
        pod: &Pod,
        found: &RuntimeContainer,
        message: &str,
        reason: KillReason,
        grace_override: Option<i64>,
    ) -> Result<(), CriError> {
        let container = find_container(pod, &found.name)
            .unwrap_or_else(|| Container { name: found.name.clone(), ..Container::default() });
        let text = if message.is_empty() {
            format!("Stopping container {}", found.name)
        } else {
            message.to_owned()
        };
        self.events.pod_event(pod, field_path(pod, &found.name), EventKind::Normal, "Killing", &text);
        let mut grace = grace_override.unwrap_or_else(|| grace_for(pod, &container, reason));
        if grace > 0 && found.is_running() {
            grace -= self.run_pre_stop(pod, &container, found, grace).await;
        }
        let grace = Duration::from_secs(u64::try_from(grace.max(MIN_GRACE)).unwrap_or(2));
        match self.runtime.stop_container(&found.id, grace).await {
            Err(error) if !is_not_found(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Runs the preStop hook; returns the whole seconds it took.
    async fn run_pre_stop(
        &self,
        pod: &Pod,
        container: &Container,
        found: &RuntimeContainer,
        grace: i64,
    ) -> i64 {
        let Some(hook) = container.lifecycle.as_ref().and_then(|l| l.pre_stop.as_ref()) else { return 0 };
        let started = Instant::now();
        let limit = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
        let ip = self.pod_ip(pod.uid());
        let run = hooks::run(self.runtime.as_ref(), pod, container, &found.id, ip.as_deref(), hook);
        match timeout(limit, run).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(pod = pod.full_name(), container = found.name, %error, "preStop hook failed");
                // The hook's output may hold secrets, so the event does not quote it.
                let path = field_path(pod, &found.name);
                self.events.pod_event(
                    pod,
                    path,
                    EventKind::Warning,
                    "FailedPreStopHook",
                    "PreStopHook failed",
                );
            }
            Err(_) => tracing::warn!(
                pod = pod.full_name(),
                container = found.name,
                "preStop hook not done within the grace period"
            ),
        }
        i64::try_from(started.elapsed().as_secs()).unwrap_or(grace)
    }

    /// Stops every container and sandbox of a pod. `grace` overrides the pod's own.
    ///
    /// # Errors
    /// The first thing the runtime could not stop; what could be stopped is.
    pub async fn kill_pod(&self, pod: &Pod, state: &RuntimePod, grace: Option<i64>) -> Result<(), CriError> {
        let running: Vec<_> = state
            .containers
            .iter()
            .filter(|c| {
                matches!(
                    c.state,
                    cri::ContainerState::ContainerRunning | cri::ContainerState::ContainerUnknown
                )
            })
            .cloned()
            .collect();
        let started = Instant::now();
        let mut first_error = None;
        for (index, group) in stop_order(pod, &running).into_iter().enumerate() {
            let spent = i64::try_from(started.elapsed().as_secs()).unwrap_or(0);
            // Sidecars share the pod's one grace period with what stopped before them.
            let grace = match (index, grace) {
                (0, given) => given,
                (_, given) => {
                    let whole = given
                        .or(pod.metadata.deletion_grace_period_seconds)
                        .unwrap_or_else(|| pod.spec_grace());
                    Some((whole - spent).max(0))
                }
            };
            let kills = group.iter().map(|c| self.kill_container(pod, c, "", KillReason::Other, grace));
            first_error = join_all(kills).await.into_iter().find_map(Result::err).or(first_error);
        }
        for sandbox in state.sandboxes.iter().filter(|s| s.state() == cri::PodSandboxState::SandboxReady) {
            match self.runtime.stop_pod_sandbox(&sandbox.id).await {
                Err(error) if !is_not_found(&error) => first_error = Some(error),
                _ => {}
            }
        }
        first_error.map_or(Ok(()), Err)
    }
}

/// Whether a container is ours, by its labels.
#[must_use]
pub fn is_ours(labels: &std::collections::HashMap<String, String>) -> bool {
    labels.contains_key(labels::POD_UID)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Pod {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {"terminationGracePeriodSeconds": 20,
                "initContainers": [{"name": "s1", "restartPolicy": "Always"}, {"name": "s2", "restartPolicy": "Always"}],
                "containers": [{"name": "m", "livenessProbe": {"terminationGracePeriodSeconds": 5}}]}
        }))
        .unwrap()
    }

    fn view(name: &str) -> RuntimeContainer {
        let status = cri::ContainerStatus { id: name.to_owned(), ..Default::default() };
        let mut view = crate::runtime::view::container_view(&status, "s");
        view.name = name.to_owned();
        view
    }

    #[test]
    fn grace_follows_deletion_probe_and_spec() {
        let mut p = pod();
        let c = p.spec().containers[0].clone();
        assert_eq!(grace_for(&p, &c, KillReason::Other), 20);
        assert_eq!(grace_for(&p, &c, KillReason::Liveness), 5);
        assert_eq!(grace_for(&p, &c, KillReason::Startup), 20);
        p.metadata.deletion_grace_period_seconds = Some(1);
        assert_eq!(grace_for(&p, &c, KillReason::Liveness), 1);
    }

    #[test]
    fn sidecars_stop_after_main_in_reverse() {
        let order = stop_order(&pod(), &[view("s1"), view("m"), view("s2")]);
        let names: Vec<Vec<_>> = order.iter().map(|g| g.iter().map(|c| c.name.as_str()).collect()).collect();
        assert_eq!(names, [vec!["m"], vec!["s2"], vec!["s1"]]);
    }
}
