//! Changing the limits of running containers.

use k8s_openapi::api::core::v1::{Container, Pod};

use copepod_cri::v1 as cri;

use super::{ERROR_RETRY, PodRuntime, SyncOutcome};
use crate::pod::{PodExt, quantity, resources};
use crate::runtime::cgroup;
use crate::runtime::plan::PodActions;
use crate::types::{RuntimeContainer, RuntimePod};

/// One container whose limits change.
struct Change<'a> {
    container: &'a Container,
    running: &'a RuntimeContainer,
    limits: cri::LinuxContainerResources,
}

impl Change<'_> {
    /// Whether its memory limit becomes smaller than it is, or is new.
    fn shrinks(&self) -> bool {
        let now = self.running.resources.as_ref().map_or(0, |r| r.memory_limit_in_bytes.max(0));
        let new = self.limits.memory_limit_in_bytes;
        new > 0 && (now == 0 || new < now)
    }
}

impl PodRuntime {
    /// Carries out the plan's resizes, what shrinks first. The pod's own cgroup was widened before and is
    /// narrowed afterwards.
    pub(super) async fn apply_resizes(
        &self,
        pod: &Pod,
        state: &RuntimePod,
        actions: &PodActions,
        outcome: &mut SyncOutcome,
    ) {
        let mut changes: Vec<_> = actions
            .resize
            .iter()
            .filter_map(|(id, name)| {
                let container = pod.spec().containers.iter().chain(pod.init_containers());
                let container = container.into_iter().find(|c| c.name == *name)?;
                let limits = resources::container_limits(pod, container, self.memory_capacity);
                Some(Change { container, running: state.container_by_id(id)?, limits })
            })
            .collect();
        if changes.is_empty() {
            return;
        }
        changes.sort_by_key(|c| !c.shrinks());
        outcome.changed = true;
        let mut result = self.check_usage(pod, &changes).await;
        for change in &changes {
            if result.is_ok() {
                result = self.apply_change(change).await;
            }
        }
        if let Err(why) = result {
            outcome.error = Some(format!("failed to \"ResizePodInPlace\": {why}"));
            outcome.resize_error = Some(why);
            outcome.retry_in(ERROR_RETRY);
        }
    }

    async fn apply_change(&self, change: &Change<'_>) -> Result<(), String> {
        let request = cri::UpdateContainerResourcesRequest {
            container_id: change.running.id.clone(),
            linux: Some(change.limits.clone()),
            ..Default::default()
        };
        self.runtime.update_container_resources(request).await.map_err(|error| error.to_string())?;
        self.note_given(&change.running.id, change.container);
        Ok(())
    }

    /// Remembers what a container runs with from now on.
    pub(super) fn note_given(&self, id: &str, container: &Container) {
        self.given.write().insert(id.to_owned(), container.resources.clone().unwrap_or_default());
    }

    /// Refuses memory limits below what is in use: the kernel would kill for them.
    async fn check_usage(&self, pod: &Pod, changes: &[Change<'_>]) -> Result<(), String> {
        let shrinking: Vec<_> = changes.iter().filter(|c| c.shrinks()).collect();
        let mut errors = Vec::new();
        if let Some(limit) = self.shrinking_pod_limit(pod)
            && let Some(usage) = cgroup::memory_usage(&self.config, pod)
            && usage >= limit
        {
            errors
                .push(format!("attempting to set pod memory limit ({limit}) below current usage ({usage})"));
        }
        for change in shrinking {
            let filter = cri::ContainerStatsFilter {
                id: change.running.id.clone(),
                ..cri::ContainerStatsFilter::default()
            };
            let stats = self.runtime.list_container_stats(Some(filter)).await;
            let stats = stats.map_err(|e| {
                format!("unable to read memory usage for pod {:?}: {e}", super::pod_text(pod))
            })?;
            let usage = stats.first().and_then(|s| s.memory.as_ref()?.usage_bytes.as_ref()).map(|v| v.value);
            let (name, limit) = (&change.container.name, change.limits.memory_limit_in_bytes);
            match usage {
                None => errors.push(format!("missing container {name:?} memory usage")),
                Some(usage) if usage >= u64::try_from(limit).unwrap_or(0) => errors.push(format!(
                    "attempting to set container {name:?} memory limit ({limit}) below current usage ({usage})"
                )),
                Some(_) => {}
            }
        }
        match errors.as_slice() {
            [] => Ok(()),
            [one] => Err(format!("cannot decrease memory limits: {one}")),
            many => Err(format!("cannot decrease memory limits: [{}]", many.join(", "))),
        }
    }

    /// The pod's new memory limit when it is below the one in force.
    fn shrinking_pod_limit(&self, pod: &Pod) -> Option<u64> {
        let limit = resources::pod_limit(pod, "memory")?;
        let overhead = quantity(pod.spec().overhead.as_ref(), "memory").unwrap_or_default();
        let new = u64::try_from((limit + overhead).units()).ok()?;
        let now = cgroup::memory_limit(&self.config, pod);
        now.is_none_or(|now| new < now).then_some(new)
    }
}
