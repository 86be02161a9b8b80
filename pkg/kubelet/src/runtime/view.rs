//! From CRI answers to [`RuntimePod`]s.

use std::collections::HashMap;

use copepod_cri::{CriError, RuntimeService, is_not_found, v1 as cri};
use jiff::Timestamp;

use super::labels;
use crate::types::{RuntimeContainer, RuntimePod};

/// Most bytes of a termination message.
pub const MAX_TERMINATION_MESSAGE: usize = 4096;
/// Most bytes and lines taken from the log by FallbackToLogsOnError.
const MAX_LOG_MESSAGE: usize = 2048;
const MAX_LOG_LINES: usize = 80;

fn time(nanos: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanos)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// One container of the runtime in our form; no file is read here.
#[must_use]
pub fn container_view(status: &cri::ContainerStatus, sandbox_id: &str) -> RuntimeContainer {
    let label = |key: &str| status.labels.get(key).cloned().unwrap_or_default();
    let note = |key: &str| status.annotations.get(key).cloned();
    let path = note(labels::TERMINATION_PATH).unwrap_or_default();
    let image = status.image.as_ref();
    let named =
        image.map(|i| if i.user_specified_image.is_empty() { &i.image } else { &i.user_specified_image });
    RuntimeContainer {
        id: status.id.clone(),
        name: label(labels::CONTAINER_NAME),
        sandbox_id: sandbox_id.to_owned(),
        state: status.state(),
        created_at: time(status.created_at),
        started_at: time(status.started_at),
        finished_at: time(status.finished_at),
        exit_code: status.exit_code,
        image: image
            .map(|i| i.image.clone())
            .filter(|i| !i.is_empty())
            .or_else(|| named.cloned())
            .unwrap_or_default(),
        image_id: status.image_ref.clone(),
        reason: status.reason.clone(),
        message: status.message.clone(),
        restart_count: note(labels::RESTART_COUNT).and_then(|n| n.parse().ok()).unwrap_or(0),
        hash: note(labels::HASH).unwrap_or_default(),
        termination_log: status
            .mounts
            .iter()
            .find(|m| !path.is_empty() && m.container_path == path)
            .map(|m| m.host_path.clone()),
        termination_policy: note(labels::TERMINATION_POLICY).unwrap_or_default(),
        log_path: status.log_path.clone(),
        resources: status.resources.as_ref().and_then(|r| r.linux.clone()),
        given: None,
        user: status.user.as_ref().and_then(|u| u.linux.clone()),
        stop_signal: status.stop_signal(),
        grace_seconds: note(labels::DELETION_GRACE)
            .or_else(|| note(labels::TERMINATION_GRACE))
            .and_then(|n| n.parse().ok()),
        pre_stop: note(labels::PRE_STOP),
    }
}

/// Reads a dead container's termination message into `message`.
pub async fn read_termination_message(container: &mut RuntimeContainer) {
    if container.state != cri::ContainerState::ContainerExited {
        return;
    }
    let mut text = match &container.termination_log {
        Some(path) => read_head(path, MAX_TERMINATION_MESSAGE).await,
        None => String::new(),
    };
    let fall_back = container.termination_policy == "FallbackToLogsOnError" && container.exit_code != 0;
    if text.is_empty() && fall_back && !container.log_path.is_empty() {
        text = super::logs::tail_text(&container.log_path, MAX_LOG_LINES, MAX_LOG_MESSAGE).await;
    }
    if text.is_empty() {
        return;
    }
    if !container.message.is_empty() {
        text = format!("{}: {text}", container.message);
    }
    container.message = text;
}

async fn read_head(path: &str, limit: usize) -> String {
    use tokio::io::AsyncReadExt;
    let mut buffer = Vec::new();
    if let Ok(file) = tokio::fs::File::open(path).await {
        // An unreadable message is no message; the container's exit is what counts.
        if file.take(limit as u64).read_to_end(&mut buffer).await.is_err() {
            buffer.clear();
        }
    }
    String::from_utf8_lossy(&buffer).into_owned()
}

/// Assembles one pod from statuses; newest first.
#[must_use]
pub fn pod_view(
    uid: &str,
    mut sandboxes: Vec<cri::PodSandboxStatus>,
    mut containers: Vec<RuntimeContainer>,
) -> RuntimePod {
    sandboxes.sort_by_key(|s| std::cmp::Reverse(s.created_at));
    containers.sort_by_key(|c| std::cmp::Reverse(c.created_at));
    let first = sandboxes.first();
    let label = |key: &str| first.and_then(|s| s.labels.get(key)).cloned().unwrap_or_default();
    let ips = first
        .filter(|s| s.state() == cri::PodSandboxState::SandboxReady)
        .and_then(|s| s.network.as_ref())
        .map(|n| std::iter::once(&n.ip).chain(n.additional_ips.iter().map(|i| &i.ip)))
        .into_iter()
        .flatten()
        .filter(|ip| !ip.is_empty())
        .cloned()
        .collect();
    RuntimePod {
        uid: uid.to_owned(),
        name: label(labels::POD_NAME),
        namespace: label(labels::POD_NAMESPACE),
        ips,
        sandboxes,
        containers,
    }
}

/// Asks the runtime about one pod.
///
/// # Errors
/// When the runtime cannot be asked; objects that vanish meanwhile are left out.
pub async fn fetch_pod(runtime: &dyn RuntimeService, uid: &str) -> Result<RuntimePod, CriError> {
    let selector = HashMap::from([(labels::POD_UID.to_owned(), uid.to_owned())]);
    let sandbox_filter = cri::PodSandboxFilter { label_selector: selector.clone(), ..Default::default() };
    let container_filter = cri::ContainerFilter { label_selector: selector, ..Default::default() };
    let (sandboxes, containers) = futures::try_join!(
        runtime.list_pod_sandboxes(Some(sandbox_filter)),
        runtime.list_containers(Some(container_filter))
    )?;
    let mut statuses = Vec::with_capacity(sandboxes.len());
    for sandbox in sandboxes {
        match runtime.pod_sandbox_status(&sandbox.id).await {
            Ok(status) => statuses.push(status),
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let mut views = Vec::with_capacity(containers.len());
    for container in containers {
        match runtime.container_status(&container.id).await {
            Ok(status) => {
                let mut view = container_view(&status, &container.pod_sandbox_id);
                read_termination_message(&mut view).await;
                views.push(view);
            }
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(pod_view(uid, statuses, views))
}
