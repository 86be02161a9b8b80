//! Keeps the newest status of every pod and writes it to the API server.
//!
//! Each change has a version; a version is written once, the newest wins. A pod is deleted from
//! the API (grace 0, by UID) only after its worker said that everything of it is gone. With no
//! API server the manager only keeps.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use copepod_client::{Client, ClientError, DeleteOptions, Patch, resources::PODS};
use futures::StreamExt;
use k8s_openapi::api::core::v1::PodStatus;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::phase::is_terminal;
use super::stamp_transitions;
use crate::pod::{CONFIG_SOURCE, ORPHAN, PodExt};
use crate::types::{PodRef, PodUid};

/// Writes in flight at once.
const PARALLEL: usize = 8;
/// Wait after a failed write.
const RETRY: Duration = Duration::from_secs(1);

struct Entry {
    pod: PodRef,
    status: PodStatus,
    version: u64,
    written: u64,
    /// The phase written last, which the watch may not have shown yet.
    told: Option<String>,
    stopped: bool,
    freed: bool,
}

impl Entry {
    /// What the API may know: a pod whose containers may still run is not over, whatever it was decided to become.
    fn to_tell(&self) -> PodStatus {
        let mut status = self.status.clone();
        let stored = self.pod.status.as_ref();
        let over = |phase: Option<&str>| phase.is_some_and(is_terminal);
        if self.stopped || !over(status.phase.as_deref()) || over(stored.and_then(|s| s.phase.as_deref())) {
            return status;
        }
        let before =
            self.told.clone().or_else(|| stored.and_then(|s| s.phase.clone()).filter(|p| !p.is_empty()));
        status.phase = Some(before.unwrap_or_else(|| "Pending".to_owned()));
        status.reason = stored.and_then(|s| s.reason.clone());
        status.message = stored.and_then(|s| s.message.clone());
        // Told together with the phase.
        for condition in status.conditions.iter_mut() {
            condition.retain(|c| c.type_ != "DisruptionTarget");
        }
        status
    }
}

/// Finds the API's UID of a static pod's mirror, by namespace and name.
pub type MirrorLookup = Arc<dyn Fn(&str, &str) -> Option<String> + Send + Sync>;

/// The manager.
#[derive(Default)]
pub struct StatusManager {
    entries: Mutex<HashMap<PodUid, Entry>>,
    changed: Notify,
}

impl std::fmt::Debug for StatusManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatusManager").field("pods", &self.entries.lock().len()).finish_non_exhaustive()
    }
}

impl StatusManager {
    /// The newest status of a pod.
    #[must_use]
    pub fn get(&self, uid: &str) -> Option<PodStatus> {
        self.entries.lock().get(uid).map(|e| e.status.clone())
    }

    /// Stores a status; transition times are kept where nothing changed. True when it is news.
    pub fn set(&self, pod: &PodRef, mut status: PodStatus) -> bool {
        if pod.annotation(CONFIG_SOURCE) == Some(ORPHAN) {
            // The API's object of that name is another pod's.
            return false;
        }
        let mut entries = self.entries.lock();
        let known = entries.get(pod.uid());
        let before = known.map(|e| &e.status).or(pod.status.as_ref());
        stamp_transitions(&mut status, before, copepod_sys::clock::now());
        match entries.get_mut(pod.uid()) {
            Some(entry) => {
                entry.pod = pod.clone();
                if entry.status == status {
                    return false;
                }
                entry.status = status;
                entry.version += 1;
            }
            None => {
                let entry = Entry {
                    pod: pod.clone(),
                    status,
                    version: 1,
                    written: 0,
                    told: None,
                    stopped: false,
                    freed: false,
                };
                entries.insert(pod.uid().to_owned(), entry);
            }
        }
        self.changed.notify_one();
        true
    }

    /// Nothing of the pod runs any more: a final phase may be told.
    pub fn set_stopped(&self, uid: &str) {
        if let Some(entry) = self.entries.lock().get_mut(uid)
            && !entry.stopped
        {
            entry.stopped = true;
            entry.version += 1;
            self.changed.notify_one();
        }
    }

    /// Whether nothing of the pod runs any more, or ever did.
    #[must_use]
    pub fn is_stopped(&self, uid: &str) -> bool {
        self.entries.lock().get(uid).is_some_and(|e| e.stopped)
    }

    /// Whether the pod has reached a final phase, told or not.
    #[must_use]
    pub fn is_over(&self, uid: &str) -> bool {
        self.entries.lock().get(uid).is_some_and(|e| e.status.phase.as_deref().is_some_and(is_terminal))
    }

    /// Everything of the pod is gone: its API object may go too.
    pub fn set_freed(&self, pod: &PodRef) {
        if let Some(entry) = self.entries.lock().get_mut(pod.uid()) {
            entry.pod = pod.clone();
            entry.freed = true;
            self.changed.notify_one();
        }
    }

    /// The API shows another status than ours: write ours again if it differs in what we own.
    pub fn reconcile(&self, pod: &PodRef) {
        if let Some(entry) = self.entries.lock().get_mut(pod.uid()) {
            entry.pod = pod.clone();
            let stored = pod.status.clone().unwrap_or_default();
            if entry.written == entry.version && differs(&stored, &entry.to_tell()) {
                entry.written = 0;
                self.changed.notify_one();
            }
        }
    }

    /// Something outside changed that may let a held-back write go through (a mirror pod appeared).
    pub fn nudge(&self) {
        self.changed.notify_one();
    }

    /// A new mirror pod has no status yet: write it.
    pub fn rewrite(&self, uid: &str) {
        if let Some(entry) = self.entries.lock().get_mut(uid) {
            entry.written = 0;
            self.changed.notify_one();
        }
    }

    /// Forgets a pod.
    pub fn remove(&self, uid: &str) {
        self.entries.lock().remove(uid);
    }

    /// Writes until shutdown.
    pub async fn run(self: Arc<Self>, client: Client, mirrors: MirrorLookup, shutdown: CancellationToken) {
        loop {
            let due = self.due();
            let failed = futures::stream::iter(due)
                .map(|work| self.write(&client, &mirrors, work))
                .buffer_unordered(PARALLEL)
                // Every write is carried through, whatever becomes of the others.
                .fold(false, |failed, ok| async move { failed || !ok })
                .await;
            let retry = if failed { RETRY } else { Duration::from_secs(60) };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = self.changed.notified() => {}
                () = tokio::time::sleep(retry) => {}
            }
        }
    }

    fn due(&self) -> Vec<(PodRef, PodStatus, u64, bool, bool)> {
        let entries = self.entries.lock();
        let of_interest = |e: &&Entry| e.version != e.written || (e.freed && e.pod.is_deleted());
        entries
            .values()
            .filter(of_interest)
            .map(|e| (e.pod.clone(), e.to_tell(), e.version, e.version != e.written, e.freed))
            .collect()
    }

    /// Writes one status and deletes the object if it may go; false to try again.
    async fn write(
        &self,
        client: &Client,
        mirrors: &MirrorLookup,
        (pod, status, version, unwritten, freed): (PodRef, PodStatus, u64, bool, bool),
    ) -> bool {
        let uid = if pod.is_static() {
            match mirrors(pod.namespace(), pod.name()) {
                Some(uid) => uid,
                // Its mirror does not exist yet; `rewrite` wakes us when it does.
                None => return true,
            }
        } else {
            pod.uid().to_owned()
        };
        let target = PODS.object(pod.namespace(), pod.name());
        if unwritten {
            let patch = Patch::Strategic(render_patch(&uid, &status));
            match client.patch::<Value>(&target.clone().subresource("status"), &patch).await {
                Ok(_) => {}
                Err(error) if is_gone(&error) => {}
                Err(error) => {
                    tracing::debug!(pod = pod.full_name(), error = %copepod_client::chain(&error), "status not written");
                    return false;
                }
            }
            if let Some(entry) = self.entries.lock().get_mut(pod.uid()) {
                entry.written = version;
                entry.told.clone_from(&status.phase);
            }
        }
        if freed && pod.is_deleted() && !pod.is_static() {
            match client.delete(&target, &DeleteOptions::uid(&uid).grace(0)).await {
                Ok(_) => tracing::info!(pod = pod.full_name(), "pod is gone, deleted from the API"),
                Err(error) if is_gone(&error) => {}
                Err(error) => {
                    tracing::warn!(pod = pod.full_name(), error = %copepod_client::chain(&error), "pod not deleted");
                    return false;
                }
            }
            if let Some(entry) = self.entries.lock().get_mut(pod.uid()) {
                entry.freed = false;
            }
        }
        true
    }
}

/// The object is not there any more, or another one has its name.
fn is_gone(error: &ClientError) -> bool {
    error.not_found() || error.conflict()
}

/// The conditions that are the kubelet's alone (upstream's `PodConditionsByKubelet`).
const OWN_CONDITIONS: &[&str] = &[
    "PodScheduled",
    "Ready",
    "Initialized",
    "ContainersReady",
    "PodReadyToStartContainers",
    "PodResizePending",
    "PodResizeInProgress",
];

/// The patch that makes the API's status ours, leaving foreign conditions alone.
#[must_use]
pub fn render_patch(uid: &str, status: &PodStatus) -> Value {
    const CLEARED: &[&str] = &[
        "message",
        "reason",
        "podIP",
        "podIPs",
        "hostIP",
        "hostIPs",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    ];
    const FOREIGN: &[&str] = &["nominatedNodeName", "resourceClaimStatuses", "resize"];
    let mut body = serde_json::to_value(status).unwrap_or_else(|_| json!({}));
    let map = body.as_object_mut().expect("a PodStatus is an object");
    for key in FOREIGN {
        map.remove(*key);
    }
    for key in ["podIPs", "hostIPs"] {
        // Merged by address otherwise, which would keep old ones.
        if let Some(list) = map.get_mut(key).and_then(Value::as_array_mut) {
            list.insert(0, json!({"$patch": "replace"}));
        }
    }
    if let Some(conditions) = map.entry("conditions").or_insert_with(|| json!([])).as_array_mut() {
        // Conditions that end by going away; the list is merged by type otherwise.
        for kind in OWN_CONDITIONS {
            if !conditions.iter().any(|c| c["type"] == *kind) {
                conditions.push(json!({"$patch": "delete", "type": kind}));
            }
        }
    }
    for condition in map.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        if condition.get("$patch").is_some() {
            continue;
        }
        for key in ["reason", "message"] {
            if let Some(fields) = condition.as_object_mut() {
                fields.entry(key).or_insert(Value::Null);
            }
        }
    }
    for key in CLEARED {
        map.entry(*key).or_insert(Value::Null);
    }
    json!({"metadata": {"uid": uid}, "status": body})
}

/// Whether `stored` lacks something of ours.
fn differs(stored: &PodStatus, ours: &PodStatus) -> bool {
    let key = |s: &PodStatus| {
        (
            s.phase.clone(),
            s.container_statuses.clone(),
            s.init_container_statuses.clone(),
            s.pod_ips.clone(),
            s.reason.clone(),
        )
    };
    let missing = ours.conditions.iter().flatten().any(|c| {
        !stored
            .conditions
            .iter()
            .flatten()
            .any(|s| s.type_ == c.type_ && s.status == c.status && s.reason == c.reason)
    });
    missing || key(&normalised(stored)) != key(&normalised(ours))
}

/// A status after a trip through the API: times cut to seconds, empty members gone.
fn normalised(status: &PodStatus) -> PodStatus {
    let mut value = serde_json::to_value(status).unwrap_or_default();
    cut(&mut value);
    serde_json::from_value(value).unwrap_or_else(|_| status.clone())
}

fn cut(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, child) in map.iter_mut() {
                let is_time = key.ends_with("At") || key.ends_with("Time");
                match child {
                    Value::String(text) if is_time => {
                        if let Some((head, _)) = text.split_once('.') {
                            *text = format!("{head}Z");
                        }
                    }
                    _ => cut(child),
                }
            }
            map.retain(|_, child| !child.is_null() && child.as_object().is_none_or(|m| !m.is_empty()));
        }
        Value::Array(items) => items.iter_mut().for_each(cut),
        _ => {}
    }
}
