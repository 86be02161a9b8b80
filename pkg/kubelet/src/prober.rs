//! Probes: one task per container and probe, results by container id.
//!
//! A task lives as long as its container runs; a new container id is a new task, so counters
//! never cross a restart. Liveness and readiness wait for startup to succeed. A liveness or
//! startup failure is final for its container: the pod worker kills it.

mod attempt;
pub mod http;
mod results;
mod task;

use std::collections::HashMap;
use std::sync::Arc;

use copepod_cri::RuntimeService;
use k8s_openapi::api::core::v1::{Container, Pod, Probe};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::pod::{PodExt, is_sidecar};
use crate::ports::EventSink;
use crate::types::{PodRef, PodUid, RuntimePod};

pub(crate) use attempt::resolve_port;
pub use results::ProbeResults;

/// Which probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProbeKind {
    /// Is it alive?
    Liveness,
    /// Should it get traffic?
    Readiness,
    /// Has it started?
    Startup,
}

impl ProbeKind {
    const ALL: [Self; 3] = [Self::Startup, Self::Liveness, Self::Readiness];

    fn word(self) -> &'static str {
        match self {
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
            Self::Startup => "Startup",
        }
    }

    fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Liveness => container.liveness_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
            Self::Startup => container.startup_probe.as_ref(),
        }
    }
}

/// Called with the pod's UID when a result changed.
pub type Wake = Arc<dyn Fn(&str) + Send + Sync>;

type Key = (PodUid, String, ProbeKind);

/// All probe tasks of the node.
pub struct Prober {
    runtime: Arc<dyn RuntimeService>,
    events: Arc<dyn EventSink>,
    results: Arc<ProbeResults>,
    wake: Wake,
    tasks: Mutex<HashMap<Key, CancellationToken>>,
}

impl std::fmt::Debug for Prober {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prober").field("tasks", &self.tasks.lock().len()).finish_non_exhaustive()
    }
}

impl Prober {
    /// A prober with no tasks yet.
    #[must_use]
    pub fn new(runtime: Arc<dyn RuntimeService>, events: Arc<dyn EventSink>, wake: Wake) -> Self {
        Self { runtime, events, results: Arc::default(), wake, tasks: Mutex::default() }
    }

    /// What is known so far.
    #[must_use]
    pub fn results(&self) -> Arc<ProbeResults> {
        self.results.clone()
    }

    /// Starts tasks for containers that run and stops those of containers that do not.
    /// `terminating` pods keep only readiness.
    pub fn sync(&self, pod: &PodRef, state: &RuntimePod, terminating: bool) {
        let mut tasks = self.tasks.lock();
        let mut wanted = Vec::new();
        let sidecars = pod.init_containers().iter().filter(|c| is_sidecar(c));
        for container in pod.spec().containers.iter().chain(sidecars) {
            let Some(found) = state.container(&container.name).filter(|c| c.is_running()) else { continue };
            for kind in ProbeKind::ALL {
                let Some(probe) = kind.of(container) else { continue };
                if terminating && kind != ProbeKind::Readiness {
                    continue;
                }
                let key = (pod.uid().to_owned(), found.id.clone(), kind);
                wanted.push(key.clone());
                if tasks.contains_key(&key) {
                    continue;
                }
                let token = CancellationToken::new();
                tasks.insert(key, token.clone());
                let task = task::ProbeTask {
                    runtime: self.runtime.clone(),
                    events: self.events.clone(),
                    results: self.results.clone(),
                    wake: self.wake.clone(),
                    pod: pod.clone(),
                    container: container.clone(),
                    container_id: found.id.clone(),
                    started_at: found.started_at,
                    pod_ip: state.ips.first().cloned(),
                    kind,
                    probe: probe.clone(),
                };
                let passed = was(pod, &found.id, kind);
                self.results.begin(&found.id, kind, passed);
                if passed && kind == ProbeKind::Startup {
                    // Started is started: only a new container starts again.
                    continue;
                }
                copepod_supervisor::spawn("probe", async move {
                    tokio::select! {
                        () = token.cancelled() => {}
                        () = task.run() => {}
                    }
                });
            }
        }
        let uid = pod.uid();
        tasks.retain(|key, token| {
            let keep = key.0 != uid || wanted.contains(key);
            if !keep {
                token.cancel();
            }
            keep
        });
        let live: Vec<_> = state.containers.iter().map(|c| c.id.as_str()).collect();
        self.results.retain(uid, &live);
    }

    /// Stops every task of the pod and forgets its results.
    pub fn remove(&self, uid: &str) {
        self.tasks.lock().retain(|key, token| {
            if key.0 == uid {
                token.cancel();
            }
            key.0 != uid
        });
        self.results.retain(uid, &[]);
    }
}

/// Whether the status that the API holds says that this very container had passed the probe: a
/// new kubelet goes on from there instead of taking it out of service.
fn was(pod: &Pod, container_id: &str, kind: ProbeKind) -> bool {
    let Some(status) = &pod.status else { return false };
    let all =
        status.container_statuses.iter().flatten().chain(status.init_container_statuses.iter().flatten());
    let same =
        |id: &Option<String>| id.as_deref().is_some_and(|id| id.ends_with(&format!("://{container_id}")));
    all.filter(|s| same(&s.container_id)).any(|s| match kind {
        ProbeKind::Readiness => s.ready,
        ProbeKind::Startup => s.started == Some(true),
        ProbeKind::Liveness => false,
    })
}

/// Address a probe of a host-network pod talks to when it names no host.
fn default_host(pod: &Pod, pod_ip: Option<&str>) -> Option<String> {
    if pod.is_host_network() {
        let status = pod.status.as_ref().and_then(|s| s.pod_ip.clone().or_else(|| s.host_ip.clone()));
        return pod_ip.map(str::to_owned).or(status).or_else(|| Some("127.0.0.1".to_owned()));
    }
    pod_ip.map(str::to_owned)
}
