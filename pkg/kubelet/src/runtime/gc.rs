//! Removing what is over: dead containers, old sandboxes, logs, directories of pods that are gone.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use copepod_cri::{CriError, is_not_found, v1 as cri};
use k8s_openapi::api::core::v1::Pod;

use super::{PodRuntime, labels, logs};
use crate::types::RuntimePod;

/// Dead containers kept per container of a living pod, besides the newest (upstream's default
/// keeps one in all, which the newest may be).
const KEEP_DEAD: usize = 1;

/// Ids of containers that may be removed from a living pod: all but the newest dead ones of each
/// name, and those of old sandboxes too.
#[must_use]
pub fn plan_dead_containers(state: &RuntimePod) -> Vec<String> {
    let mut kept: HashMap<&str, usize> = HashMap::new();
    let mut remove = Vec::new();
    // Newest first.
    for container in &state.containers {
        let seen = kept.entry(container.name.as_str()).or_default();
        *seen += 1;
        let dead = matches!(
            container.state,
            cri::ContainerState::ContainerExited | cri::ContainerState::ContainerCreated
        );
        if dead && *seen > KEEP_DEAD + 1 {
            remove.push(container.id.clone());
        }
    }
    remove
}

/// Ids of sandboxes that may be removed from a living pod: not ready, not the newest, and empty.
#[must_use]
pub fn plan_dead_sandboxes(state: &RuntimePod) -> Vec<String> {
    state
        .sandboxes
        .iter()
        .skip(1)
        .filter(|s| s.state() != cri::PodSandboxState::SandboxReady)
        .filter(|s| !state.containers.iter().any(|c| c.sandbox_id == s.id))
        .map(|s| s.id.clone())
        .collect()
}

fn gone(result: Result<(), CriError>) -> Result<(), CriError> {
    match result {
        Err(error) if !is_not_found(&error) => Err(error),
        _ => Ok(()),
    }
}

impl PodRuntime {
    /// Removes old dead containers and sandboxes of a living pod.
    ///
    /// # Errors
    /// The runtime's first refusal.
    pub async fn collect_dead(&self, pod: &Pod, state: &RuntimePod) -> Result<(), CriError> {
        for id in plan_dead_containers(state) {
            gone(self.runtime.remove_container(&id).await)?;
            if let Some(found) = state.container_by_id(&id) {
                self.remove_logs_of(pod, &found.name, &found.id, &found.log_path);
            }
        }
        for id in plan_dead_sandboxes(state) {
            gone(self.runtime.remove_pod_sandbox(&id).await)?;
        }
        Ok(())
    }

    /// Removes everything the runtime holds of a pod that is gone.
    ///
    /// # Errors
    /// The runtime's first refusal.
    pub async fn remove_all(&self, state: &RuntimePod) -> Result<(), CriError> {
        for container in &state.containers {
            gone(self.runtime.remove_container(&container.id).await)?;
        }
        for sandbox in &state.sandboxes {
            gone(self.runtime.stop_pod_sandbox(&sandbox.id).await)?;
            gone(self.runtime.remove_pod_sandbox(&sandbox.id).await)?;
        }
        Ok(())
    }

    /// Removes a pod's log directory and its symlinks.
    pub fn remove_pod_logs(&self, pod: &Pod, state: &RuntimePod) {
        for container in &state.containers {
            remove_file(&logs::legacy_link(
                &self.config.container_logs_dir,
                pod,
                &container.name,
                &container.id,
            ));
        }
        let dir = logs::pod_log_dir(&self.config.pod_logs_dir, pod);
        if let Err(error) = std::fs::remove_dir_all(&dir)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(dir = %dir.display(), %error, "log directory");
        }
    }

    fn remove_logs_of(&self, pod: &Pod, name: &str, id: &str, log_path: &str) {
        remove_file(&logs::legacy_link(&self.config.container_logs_dir, pod, name, id));
        let path = Path::new(log_path);
        remove_file(path);
        // Rotated parts of the same run.
        let (Some(dir), Some(stem)) = (path.parent(), path.file_name().and_then(|n| n.to_str())) else {
            return;
        };
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(|n| n.starts_with(&format!("{stem}."))) {
                remove_file(&entry.path());
            }
        }
    }

    /// Removes symlinks of logs that are gone.
    pub fn remove_dead_links(&self) {
        for entry in std::fs::read_dir(&self.config.container_logs_dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_symlink() && !path.exists() {
                remove_file(&path);
            }
        }
    }

    /// UIDs of pods the runtime holds something of, with what their labels say.
    ///
    /// # Errors
    /// When the runtime cannot be listed.
    pub async fn known_uids(&self) -> Result<HashSet<String>, CriError> {
        let (sandboxes, containers) =
            futures::try_join!(self.runtime.list_pod_sandboxes(None), self.runtime.list_containers(None))?;
        let of = |map: HashMap<String, String>| map.get(labels::POD_UID).cloned();
        Ok(sandboxes
            .into_iter()
            .filter_map(|s| of(s.labels))
            .chain(containers.into_iter().filter_map(|c| of(c.labels)))
            .collect())
    }
}

fn remove_file(path: &Path) {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::debug!(path = %path.display(), %error, "not removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::view::{container_view, pod_view};

    #[test]
    fn newest_dead_containers_stay() {
        let views = (0..4).map(|i| {
            let status = cri::ContainerStatus { id: format!("{i}"), created_at: i, ..Default::default() };
            let mut view = container_view(&status, "s");
            view.name = "c".to_owned();
            view.state = if i == 3 {
                cri::ContainerState::ContainerRunning
            } else {
                cri::ContainerState::ContainerExited
            };
            view
        });
        let state = pod_view("u", Vec::new(), views.collect());
        assert_eq!(plan_dead_containers(&state), ["1", "0"]);
    }
}
