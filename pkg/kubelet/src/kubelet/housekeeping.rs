//! Periodic care: orphans, stale directories, QoS shares, log rotation.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use copepod_cri::v1 as cri;
use tokio_util::sync::CancellationToken;

use super::Kubelet;
use crate::pod::resources::{Qos, pod_request};
use crate::pod::{CONFIG_SOURCE, ORPHAN, PodExt};
use crate::runtime::{cgroup, kill, view};

/// Between two rounds.
const ROUND: Duration = Duration::from_secs(10);

impl Kubelet {
    /// Runs until shutdown. Only started once every source has spoken.
    pub async fn keep_house(self: Arc<Self>, shutdown: CancellationToken) {
        loop {
            self.stop_orphans().await;
            self.delete_orphaned_mirrors().await;
            self.remove_stale_dirs();
            self.share_cpu();
            self.rotate_logs().await;
            self.pods.remove_dead_links();
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(ROUND) => {}
            }
        }
    }

    fn known(&self) -> HashSet<String> {
        let views = self.workers.get().map(|w| w.views()).unwrap_or_default();
        views.iter().map(|v| v.pod.uid().to_owned()).collect()
    }

    /// Stops pods that the runtime holds and no source names (they went while we were away).
    async fn stop_orphans(&self) {
        let Ok(uids) = self.pods.known_uids().await else { return };
        let known = self.known();
        let Some(workers) = self.workers.get() else { return };
        for uid in uids.difference(&known) {
            let Ok(state) = view::fetch_pod(self.runtime.as_ref(), uid).await else { continue };
            if state.sandboxes.is_empty() && state.containers.is_empty() {
                continue;
            }
            tracing::info!(uid, pod = state.name, "pod is in no source any more; stopping it");
            let mut pod = kill::restore_pod(&state);
            let notes = pod.metadata.annotations.get_or_insert_with(Default::default);
            notes.insert(CONFIG_SOURCE.to_owned(), ORPHAN.to_owned());
            workers.remove_orphan(Arc::new(pod));
        }
    }

    /// Deletes mirrors whose manifest went while we were away.
    async fn delete_orphaned_mirrors(&self) {
        let (Some(mirrors), Some(workers)) = (&self.mirrors, self.workers.get()) else { return };
        let own: HashSet<_> =
            workers.views().iter().filter(|v| v.pod.is_static()).map(|v| v.pod.full_name()).collect();
        for full_name in mirrors.names() {
            if let (false, Some((name, namespace))) = (own.contains(&full_name), full_name.rsplit_once('_')) {
                mirrors.remove_named(namespace, name).await;
            }
        }
    }

    /// Removes directories of pods that are gone, unless something is still mounted below them.
    fn remove_stale_dirs(&self) {
        let known = self.known();
        for entry in std::fs::read_dir(self.config.root_dir.join("pods")).into_iter().flatten().flatten() {
            let path = entry.path();
            let uid = entry.file_name().to_string_lossy().into_owned();
            if known.contains(&uid) || mounted_below(&path) {
                continue;
            }
            match std::fs::remove_dir_all(&path) {
                Ok(()) => {
                    tracing::info!(path = %path.display(), "removed the directory of a pod that is gone")
                }
                Err(error) => tracing::warn!(path = %path.display(), %error, "stale pod directory"),
            }
        }
    }

    /// Gives the burstable class the CPU its pods request together.
    fn share_cpu(&self) {
        let views = self.workers.get().map(|w| w.views()).unwrap_or_default();
        let burstable = views.iter().filter(|v| Qos::of(&v.pod) == Qos::Burstable);
        let millis = burstable.map(|v| pod_request(&v.pod, "cpu").millis()).sum();
        if let Err(error) = cgroup::ensure_qos(&self.config, millis) {
            tracing::debug!(%error, "QoS cgroups");
        }
    }

    /// Rotates logs of running containers that grew too large.
    async fn rotate_logs(&self) {
        let pods: Vec<_> = self.cache.read().values().cloned().collect();
        for pod in pods {
            for container in pod.containers.iter().filter(|c| c.is_running() && !c.log_path.is_empty()) {
                let path = Path::new(&container.log_path);
                let size = std::fs::metadata(path).map_or(0, |m| m.len());
                if size < self.config.container_log_max_size {
                    continue;
                }
                let stamp = copepod_sys::clock::now().strftime("%Y%m%d-%H%M%S").to_string();
                let rotated = PathBuf::from(format!("{}.{stamp}", path.display()));
                if let Err(error) = std::fs::rename(path, &rotated) {
                    tracing::warn!(path = %path.display(), %error, "log rotation");
                    continue;
                }
                if let Err(error) = self.runtime.reopen_container_log(&container.id).await {
                    tracing::warn!(path = %path.display(), %error, "log cannot be reopened; put back");
                    if let Err(error) = std::fs::rename(&rotated, path) {
                        tracing::warn!(path = %path.display(), %error, "log not put back");
                    }
                    continue;
                }
                drop_old_logs(path, self.config.container_log_max_files);
            }
        }
    }

    /// Whether the newest sandbox of `uid` is ready.
    #[must_use]
    pub fn has_ready_sandbox(&self, uid: &str) -> bool {
        self.cache.read().get(uid).is_some_and(|p| {
            p.sandboxes.first().is_some_and(|s| s.state() == cri::PodSandboxState::SandboxReady)
        })
    }
}

/// Whether something is mounted at or below `dir`: nothing may be removed there then, it could be a host's own files.
/// True as well when the mounts cannot be read.
pub(super) fn mounted_below(dir: &Path) -> bool {
    let Ok(table) = std::fs::read_to_string("/proc/self/mountinfo") else { return true };
    // The fifth field is the mount point.
    table.lines().filter_map(|line| line.split(' ').nth(4)).any(|point| Path::new(point).starts_with(dir))
}

/// Keeps the newest `keep - 1` rotated parts beside the log itself.
fn drop_old_logs(path: &Path, keep: u32) {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str())) else { return };
    let prefix = format!("{name}.");
    let mut parts: Vec<_> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(&prefix)))
        .collect();
    // The stamp sorts by age.
    parts.sort();
    let excess = parts.len().saturating_sub(keep.saturating_sub(1) as usize);
    for part in parts.drain(..excess) {
        if let Err(error) = std::fs::remove_file(&part) {
            tracing::warn!(path = %part.display(), %error, "old log part");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_are_seen() {
        assert!(mounted_below(Path::new("/")));
        let dir = tempfile::tempdir().unwrap();
        assert!(!mounted_below(dir.path()));
    }

    #[test]
    fn oldest_parts_go_first() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["0.log", "0.log.1", "0.log.2", "0.log.3", "1.log.0"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        drop_old_logs(&dir.path().join("0.log"), 3);
        let left = |name: &str| dir.path().join(name).exists();
        assert!(!left("0.log.1") && left("0.log.2") && left("0.log.3") && left("0.log") && left("1.log.0"));
    }
}
