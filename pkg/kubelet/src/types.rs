//! What the kubelet knows about a pod beside its spec: identity, source and runtime state.
//!
//! Pods themselves are `k8s_openapi` [`Pod`]s behind an `Arc`: a node has at most a few hundred,
//! and every rule below needs most of their fields.

use std::sync::Arc;

use copepod_cri::v1 as cri;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceRequirements;
pub use k8s_openapi::api::core::v1::{Container, Pod};

/// A pod as the kubelet passes it around.
pub type PodRef = Arc<Pod>;

/// UID of a pod: of the API object, or of the manifest for static pods.
pub type PodUid = String;

/// State of one container as the runtime reports it, trimmed to what is read.
#[derive(Debug, Clone, PartialEq)]
pub struct RuntimeContainer {
    /// Container id without the `containerd://` prefix.
    pub id: String,
    /// Name in the pod spec.
    pub name: String,
    /// Sandbox it lives in, when known.
    pub sandbox_id: String,
    /// CRI state.
    pub state: cri::ContainerState,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was started; the epoch when never.
    pub started_at: Timestamp,
    /// When it ended; the epoch when running.
    pub finished_at: Timestamp,
    /// Exit code once ended.
    pub exit_code: i32,
    /// Image as the user named it.
    pub image: String,
    /// Digest or id of the image in status form.
    pub image_id: String,
    /// `reason` of the runtime (`OOMKilled`, `Error`, `Completed`, …).
    pub reason: String,
    /// The runtime's message, or the termination message once read.
    pub message: String,
    /// Restarts so far, from our annotation.
    pub restart_count: i32,
    /// Hash of the container spec it was created from (our annotation).
    pub hash: String,
    /// Host file that collects the termination message, when one was mounted.
    pub termination_log: Option<String>,
    /// The spec's terminationMessagePolicy at creation.
    pub termination_policy: String,
    /// Host path of the log file.
    pub log_path: String,
    /// Limits as the runtime applied them.
    pub resources: Option<cri::LinuxContainerResources>,
    /// What this process gave it last; nothing is known of containers that another process started.
    pub given: Option<ResourceRequirements>,
    /// The user the first process runs as.
    pub user: Option<cri::LinuxContainerUser>,
    /// The signal that stops it, when the runtime says.
    pub stop_signal: cri::Signal,
    /// Grace period given at creation, seconds.
    pub grace_seconds: Option<i64>,
    /// preStop hook stored at creation (JSON), for pods that are gone from every source.
    pub pre_stop: Option<String>,
}

impl RuntimeContainer {
    /// Whether it is running now.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state == cri::ContainerState::ContainerRunning
    }

    /// `containerd://<id>`, the form of status.
    #[must_use]
    pub fn status_id(&self, runtime_name: &str) -> String {
        format!("{runtime_name}://{}", self.id)
    }
}

/// All the runtime holds for one pod UID.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuntimePod {
    /// The pod's UID.
    pub uid: PodUid,
    /// Its name, from our labels.
    pub name: String,
    /// Its namespace, from our labels.
    pub namespace: String,
    /// Addresses of the newest sandbox; empty for host network.
    pub ips: Vec<String>,
    /// Sandboxes, newest first.
    pub sandboxes: Vec<cri::PodSandboxStatus>,
    /// Containers in any state, newest first.
    pub containers: Vec<RuntimeContainer>,
}

impl RuntimePod {
    /// The newest container called `name`.
    #[must_use]
    pub fn container(&self, name: &str) -> Option<&RuntimeContainer> {
        self.containers.iter().find(|c| c.name == name)
    }

    /// The container with this id.
    #[must_use]
    pub fn container_by_id(&self, id: &str) -> Option<&RuntimeContainer> {
        self.containers.iter().find(|c| c.id == id)
    }

    /// The newest sandbox if it is ready.
    #[must_use]
    pub fn ready_sandbox(&self) -> Option<&cri::PodSandboxStatus> {
        self.sandboxes.first().filter(|s| s.state() == cri::PodSandboxState::SandboxReady)
    }

    /// Whether any container or sandbox is still alive.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.containers.iter().any(RuntimeContainer::is_running)
            || self.sandboxes.iter().any(|s| s.state() == cri::PodSandboxState::SandboxReady)
    }
}
