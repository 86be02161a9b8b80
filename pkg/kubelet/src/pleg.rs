//! Pod lifecycle events: which pods changed in the runtime.
//!
//! The runtime's own event stream where there is one; a list of everything, compared with the
//! list before, where there is none. After every interruption all pods are looked at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use copepod_cri::{CriError, RuntimeService, v1 as cri};
use futures::StreamExt;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::runtime::labels;

/// Between two lists when the runtime does not stream.
const RELIST: Duration = Duration::from_secs(1);
/// Longest wait before a broken stream is opened again.
const MAX_RETRY: Duration = Duration::from_secs(5);

/// What the generator tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlegEvent {
    /// This pod changed.
    Pod(String),
    /// Anything may have changed: the stream was interrupted.
    All,
}

/// Receives what changed.
pub type PlegSink = Arc<dyn Fn(PlegEvent) + Send + Sync>;

/// States of everything ours, by object id; the pod's UID with each.
type Snapshot = HashMap<String, (String, i32)>;

/// Runs until shutdown.
pub async fn run(runtime: Arc<dyn RuntimeService>, sink: PlegSink, shutdown: CancellationToken) {
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = follow(runtime, sink) => {}
    }
}

async fn follow(runtime: Arc<dyn RuntimeService>, sink: PlegSink) {
    let mut retry = Duration::from_millis(100);
    loop {
        match runtime.container_events().await {
            Ok(mut events) => {
                retry = Duration::from_millis(100);
                sink(PlegEvent::All);
                while let Some(event) = events.next().await {
                    match event {
                        Ok(event) => sink(pod_of(&event)),
                        Err(error) => {
                            tracing::warn!(%error, "container event stream broke off");
                            break;
                        }
                    }
                }
            }
            Err(error) if error.code() == tonic::Code::Unimplemented => {
                tracing::info!("the runtime does not stream container events; listing instead");
                return relist(runtime, sink).await;
            }
            Err(error) => tracing::warn!(%error, "container event stream"),
        }
        sleep(retry).await;
        retry = (retry * 2).min(MAX_RETRY);
    }
}

fn pod_of(event: &cri::ContainerEventResponse) -> PlegEvent {
    let uid = event.pod_sandbox_status.as_ref().and_then(|s| s.metadata.as_ref()).map(|m| m.uid.clone());
    match uid {
        Some(uid) if !uid.is_empty() => PlegEvent::Pod(uid),
        _ => PlegEvent::All,
    }
}

async fn relist(runtime: Arc<dyn RuntimeService>, sink: PlegSink) {
    let mut before = Snapshot::new();
    loop {
        match snapshot(runtime.as_ref()).await {
            Ok(now) => {
                for uid in plan_changes(&before, &now) {
                    sink(PlegEvent::Pod(uid));
                }
                before = now;
            }
            Err(error) => tracing::warn!(%error, "runtime cannot be listed"),
        }
        sleep(RELIST).await;
    }
}

async fn snapshot(runtime: &dyn RuntimeService) -> Result<Snapshot, CriError> {
    let (sandboxes, containers) =
        futures::try_join!(runtime.list_pod_sandboxes(None), runtime.list_containers(None))?;
    let uid = |map: &HashMap<String, String>| map.get(labels::POD_UID).cloned();
    let mut all = Snapshot::new();
    for sandbox in sandboxes {
        if let Some(uid) = uid(&sandbox.labels) {
            all.insert(sandbox.id, (uid, sandbox.state));
        }
    }
    for container in containers {
        if let Some(uid) = uid(&container.labels) {
            all.insert(container.id, (uid, container.state));
        }
    }
    Ok(all)
}

/// UIDs of pods with an object that appeared, went or changed state; sorted.
fn plan_changes(before: &Snapshot, now: &Snapshot) -> Vec<String> {
    let appeared = now.iter().filter(|(id, value)| before.get(*id) != Some(value));
    let gone = before.iter().filter(|(id, _)| !now.contains_key(*id));
    let mut uids: Vec<_> = appeared.chain(gone).map(|(_, (uid, _))| uid.clone()).collect();
    uids.sort();
    uids.dedup();
    uids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_pods_once() {
        let map = |items: &[(&str, &str, i32)]| -> Snapshot {
            items.iter().map(|(id, uid, state)| ((*id).to_owned(), ((*uid).to_owned(), *state))).collect()
        };
        let before = map(&[("a", "1", 1), ("b", "1", 1), ("c", "2", 1), ("d", "3", 1)]);
        let now = map(&[("a", "1", 2), ("b", "1", 2), ("c", "2", 1), ("e", "4", 0)]);
        assert_eq!(plan_changes(&before, &now), ["1", "3", "4"]);
        assert!(plan_changes(&now, &now).is_empty());
    }
}
