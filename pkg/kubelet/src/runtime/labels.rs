//! Labels and annotations on sandboxes and containers: upstream's, byte for byte, because log
//! shippers, CSI drivers and either kubelet's adoption after a restart read them.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::pod::PodExt;
use crate::pod::hash::container_hash_text;

/// Pod name.
pub const POD_NAME: &str = "io.kubernetes.pod.name";
/// Pod namespace.
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// Pod UID.
pub const POD_UID: &str = "io.kubernetes.pod.uid";
/// Container name.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// Hash of the container spec.
pub const HASH: &str = "io.kubernetes.container.hash";
/// Restarts so far.
pub const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
/// Where the container writes its termination message.
pub const TERMINATION_PATH: &str = "io.kubernetes.container.terminationMessagePath";
/// How the message is found.
pub const TERMINATION_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
/// Grace period of a deletion in progress.
pub const DELETION_GRACE: &str = "io.kubernetes.pod.deletionGracePeriod";
/// Grace period of the spec.
pub const TERMINATION_GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";
/// preStop hook as JSON.
pub const PRE_STOP: &str = "io.kubernetes.container.preStopHandler";
/// Ports as JSON.
pub const PORTS: &str = "io.kubernetes.container.ports";

/// Labels of a sandbox: the pod's own and its identity.
#[must_use]
pub fn sandbox_labels(pod: &Pod) -> HashMap<String, String> {
    let mut labels: HashMap<_, _> = pod.metadata.labels.clone().into_iter().flatten().collect();
    labels.extend(identity(pod));
    labels
}

fn identity(pod: &Pod) -> [(String, String); 3] {
    [
        (POD_NAME.to_owned(), pod.name().to_owned()),
        (POD_NAMESPACE.to_owned(), pod.namespace().to_owned()),
        (POD_UID.to_owned(), pod.uid().to_owned()),
    ]
}

/// Labels of a container.
#[must_use]
pub fn container_labels(pod: &Pod, container: &Container) -> HashMap<String, String> {
    let mut labels = HashMap::from(identity(pod));
    labels.insert(CONTAINER_NAME.to_owned(), container.name.clone());
    labels
}

/// Annotations of a container.
#[must_use]
pub fn container_annotations(
    pod: &Pod,
    container: &Container,
    restart_count: i32,
) -> HashMap<String, String> {
    let mut map = HashMap::new();
    let mut set = |key: &str, value: String| map.insert(key.to_owned(), value);
    set(HASH, container_hash_text(container));
    set(RESTART_COUNT, restart_count.to_string());
    set(TERMINATION_PATH, container.termination_message_path.clone().unwrap_or_default());
    set(TERMINATION_POLICY, container.termination_message_policy.clone().unwrap_or_default());
    if let Some(grace) = pod.metadata.deletion_grace_period_seconds {
        set(DELETION_GRACE, grace.to_string());
    }
    if let Some(grace) = pod.spec().termination_grace_period_seconds {
        set(TERMINATION_GRACE, grace.to_string());
    }
    let pre_stop = container.lifecycle.as_ref().and_then(|l| l.pre_stop.as_ref());
    if let Some(json) = pre_stop.and_then(|hook| serde_json::to_string(hook).ok()) {
        set(PRE_STOP, json);
    }
    let ports = container.ports.as_ref().filter(|p| !p.is_empty());
    if let Some(json) = ports.and_then(|ports| serde_json::to_string(ports).ok()) {
        set(PORTS, json);
    }
    map
}
