//! Seams between the kubelet's core and the parts beside it: volumes, environment, server.
//!
//! The core owns pods, workers and the runtime; it asks a [`PodVolumes`] for mounts and a
//! [`PodEnvironment`] for variables, and offers a [`NodeView`] to the server on :10250.

use std::future::Future;
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use copepod_cri::{ImageService, RuntimeService, v1 as cri};

use crate::types::{Container, Pod, PodRef, RuntimePod};

/// A boxed future, so that the ports stay object-safe.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why volumes or variables of a pod are not ready. `Display` is the text users see in the event
/// (`FailedMount`) or waiting message, so it is upstream's wording.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SetupError {
    /// Try again later (object not there yet, API away): the pod waits.
    #[error("{0}")]
    Retry(String),
    /// The container's configuration is wrong (`CreateContainerConfigError`).
    #[error("{0}")]
    Config(String),
}

/// What is known of the pod's addresses when a container is created.
#[derive(Debug, Clone, Default)]
pub struct PodAddresses {
    /// Pod addresses, first is primary; the node's for host-network pods.
    pub pod_ips: Vec<String>,
    /// The node's addresses, first is primary.
    pub host_ips: Vec<IpAddr>,
}

/// Resolves the environment of containers.
pub trait PodEnvironment: Send + Sync + 'static {
    /// Variables of one container, in order, service links, envFrom and `$(VAR)` expansion included.
    fn resolve<'a>(
        &'a self,
        pod: &'a Pod,
        container: &'a Container,
        addresses: &'a PodAddresses,
    ) -> BoxFuture<'a, Result<Vec<(String, String)>, SetupError>>;
}

/// Mounts what pods ask for.
pub trait PodVolumes: Send + Sync + 'static {
    /// Makes every volume of the pod ready below its pod directory; idempotent, called on each
    /// sync (so it also refreshes config maps, secrets, tokens when they changed).
    fn mount<'a>(&'a self, pod: &'a PodRef) -> BoxFuture<'a, Result<(), SetupError>>;

    /// The mounts of one container, sub paths (expanded with `env`) included. `/etc/hosts`, the
    /// termination log and devices are the core's own.
    fn container_mounts<'a>(
        &'a self,
        pod: &'a Pod,
        container: &'a Container,
        env: &'a [(String, String)],
    ) -> BoxFuture<'a, Result<Vec<cri::Mount>, SetupError>>;

    /// Groups that volumes ask for (annotation `pv.beta.kubernetes.io/gid`), added to the
    /// supplemental groups.
    fn extra_groups(&self, pod: &Pod) -> Vec<i64>;

    /// Unmounts everything below the pod's directory; idempotent. The pod's containers are gone.
    fn unmount<'a>(&'a self, uid: &'a str) -> BoxFuture<'a, Result<(), SetupError>>;
}

/// Credentials for image pulls from `imagePullSecrets`.
pub trait PullSecrets: Send + Sync + 'static {
    /// Contents of the named secrets' `.dockerconfigjson`/`.dockercfg`; missing ones are skipped
    /// (and told to the caller by name, for the `FailedToRetrieveImagePullSecret` event).
    fn resolve<'a>(&'a self, pod: &'a Pod) -> BoxFuture<'a, (Vec<serde_json::Value>, Vec<String>)>;
}

/// What the server on :10250 may ask of the core.
pub trait NodeView: Send + Sync + 'static {
    /// All pods with their newest generated status.
    fn pods(&self) -> Vec<PodRef>;

    /// One pod by namespace and name; mirror-pod names find their static pod.
    fn pod(&self, namespace: &str, name: &str) -> Option<PodRef>;

    /// The runtime's newest view of one pod.
    fn runtime_pod(&self, uid: &str) -> Option<Arc<RuntimePod>>;

    /// Host path of a container's current log, or of its previous run.
    fn log_path(&self, pod: &Pod, container: &str, previous: bool) -> Option<PathBuf>;

    /// The runtime, for exec, attach, port-forward and stats.
    fn runtime(&self) -> Arc<dyn RuntimeService>;

    /// Images and the image filesystem.
    fn images(&self) -> Arc<dyn ImageService>;

    /// Whether the sync loop is alive (`syncloop` check of healthz).
    fn healthy(&self) -> Result<(), String>;
}

/// Weight of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// All is well.
    Normal,
    /// Something needs attention.
    Warning,
}

impl EventKind {
    /// The word in the object.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Where events about pods and the node go. Never blocks; without an API server they are logged.
pub trait EventSink: Send + Sync + 'static {
    /// An event about a pod, or about the part of it that `field_path` names
    /// (`spec.containers{web}`).
    fn pod_event(&self, pod: &Pod, field_path: Option<String>, kind: EventKind, reason: &str, message: &str);

    /// An event about the node.
    fn node_event(&self, kind: EventKind, reason: &str, message: &str);
}
