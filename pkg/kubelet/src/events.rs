//! Where events go: to the API server, and always to the log.

use copepod_client::resources::{NODES, PODS};
use copepod_client::{Client, ObjectRef, Recorder};
use k8s_openapi::api::core::v1::Pod;

use crate::pod::PodExt;
use crate::ports::{EventKind, EventSink};

/// Records events through the API server when there is one.
#[derive(Debug)]
pub(crate) struct Events {
    recorder: Option<Recorder>,
    node: String,
}

impl Events {
    /// Events of node `node`.
    #[must_use]
    pub(crate) fn new(client: Option<&Client>, node: &str) -> Self {
        Self { recorder: client.map(|c| Recorder::new(c, "kubelet", node)), node: node.to_owned() }
    }

    fn record(&self, object: ObjectRef, kind: EventKind, reason: &str, message: &str) {
        let Some(recorder) = &self.recorder else { return };
        let kind = match kind {
            EventKind::Normal => copepod_client::EventKind::Normal,
            EventKind::Warning => copepod_client::EventKind::Warning,
        };
        recorder.event(object, kind, reason, message);
    }
}

impl EventSink for Events {
    fn pod_event(&self, pod: &Pod, field_path: Option<String>, kind: EventKind, reason: &str, message: &str) {
        let level = kind.as_str();
        tracing::info!(pod = pod.full_name(), part = field_path, level, reason, "{message}");
        let object = ObjectRef {
            api_version: PODS.api_version(),
            kind: "Pod".to_owned(),
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            uid: pod.uid().to_owned(),
            resource_version: pod.metadata.resource_version.clone().unwrap_or_default(),
            field_path: field_path.unwrap_or_default(),
        };
        self.record(object, kind, reason, message);
    }

    fn node_event(&self, kind: EventKind, reason: &str, message: &str) {
        tracing::info!(node = self.node, level = kind.as_str(), reason, "{message}");
        let object = ObjectRef {
            api_version: NODES.api_version(),
            kind: "Node".to_owned(),
            name: self.node.clone(),
            // Upstream's kubelet names the node by name in place of its UID.
            uid: self.node.clone(),
            ..ObjectRef::default()
        };
        self.record(object, kind, reason, message);
    }
}
