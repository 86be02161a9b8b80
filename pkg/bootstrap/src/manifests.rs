//! The four static pods of the control plane, in kubeadm's form.
//!
//! They are ordinary manifests that a person may edit: a file that exists is written again only when what this version
//! of copepod renders has changed since it last wrote it (the hash of that is kept beside the state, not in the file).

mod components;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::error::BootstrapError;
use crate::kubeconfig::to_yaml;
use crate::node::Node;
use crate::write::{make_dir, write_if_changed};

/// The image of our own control-plane components.
pub const COPEPOD_IMAGE: &str = concat!("localhost/copepod/copepod:v", env!("CARGO_PKG_VERSION"));
/// The image of etcd, under upstream's name.
pub const ETCD_IMAGE: &str = "registry.k8s.io/etcd:3.7.3-0";
/// The sandbox image, under upstream's name.
pub const PAUSE_IMAGE: &str = "registry.k8s.io/pause:3.10.2";

/// A static pod of the control plane, before it becomes a manifest.
#[derive(Debug)]
pub(crate) struct Component {
    pub(crate) name: &'static str,
    pub(crate) image: &'static str,
    pub(crate) command: Vec<String>,
    /// Environment of the process.
    pub(crate) env: Vec<(&'static str, String)>,
    /// Name, host path, whether it is a file, whether it may be written.
    pub(crate) mounts: Vec<Mount>,
    /// The port, scheme and paths of liveness and startup, and of readiness.
    pub(crate) probe: Probe,
    pub(crate) cpu: &'static str,
    pub(crate) memory: Option<&'static str>,
    pub(crate) annotations: Value,
}

#[derive(Debug)]
pub(crate) struct Mount {
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) kind: &'static str,
    pub(crate) read_only: bool,
}

#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) port: u16,
    pub(crate) scheme: &'static str,
    pub(crate) live: &'static str,
    pub(crate) ready: Option<&'static str>,
}

/// Every manifest as file name and YAML.
///
/// # Errors
/// When a document cannot be rendered.
pub fn render(node: &Node) -> Result<Vec<(String, String)>, BootstrapError> {
    components::all(node)
        .iter()
        .map(|c| Ok((format!("{}.yaml", c.name), to_yaml(&pod(c), c.name)?)))
        .collect()
}

/// Writes the manifests that are missing or whose rendering changed; returns the paths written.
///
/// # Errors
/// Names the file that cannot be written.
pub fn ensure(node: &Node) -> Result<Vec<PathBuf>, BootstrapError> {
    let dir = node.layout.manifests();
    make_dir(&dir)?;
    make_dir(&node.layout.etcd())?;
    let mut written = Vec::new();
    for (name, text) in render(node)? {
        let path = dir.join(&name);
        let stamp = node.layout.data().join("manifests").join(format!("{name}.sha256"));
        let hash = hex::encode(Sha256::digest(text.as_bytes()));
        let ours_is_new = std::fs::read_to_string(&stamp).map_or(true, |known| known != hash);
        if (ours_is_new || !path.exists()) && write_if_changed(&path, &text, 0o600)? {
            written.push(path);
        }
        write_if_changed(&stamp, &hash, 0o600)?;
    }
    Ok(written)
}

fn pod(component: &Component) -> Value {
    let volumes: Vec<Value> = component
        .mounts
        .iter()
        .map(|m| json!({"name": m.name, "hostPath": {"path": m.path, "type": m.kind}}))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": component.name,
            "namespace": "kube-system",
            "labels": {"component": component.name, "tier": "control-plane"},
            "annotations": component.annotations,
        },
        "spec": {
            "containers": [container(component)],
            "hostNetwork": true,
            "priority": 2_000_001_000,
            "priorityClassName": "system-node-critical",
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": volumes,
        },
    })
}

fn container(component: &Component) -> Value {
    let mounts: Vec<Value> = component
        .mounts
        .iter()
        .map(|m| json!({"name": m.name, "mountPath": m.path, "readOnly": m.read_only}))
        .collect();
    let env: Vec<Value> = component.env.iter().map(|(k, v)| json!({"name": k, "value": v})).collect();
    let mut requests = json!({"cpu": component.cpu});
    if let Some(memory) = component.memory {
        requests["memory"] = memory.into();
    }
    let probe = &component.probe;
    let mut container = json!({
        "name": component.name,
        "image": component.image,
        "imagePullPolicy": "IfNotPresent",
        "command": component.command,
        "env": env,
        "resources": {"requests": requests},
        "volumeMounts": mounts,
        "livenessProbe": http_probe(probe, probe.live, 8, 10),
        "startupProbe": http_probe(probe, probe.live, 24, 1),
    });
    if let Some(path) = probe.ready {
        container["readinessProbe"] = http_probe(probe, path, 3, 1);
    }
    container
}

/// kubeadm's probes, but the first look comes at once and each second: a start here takes one second, not ten.
fn http_probe(probe: &Probe, path: &str, failures: u32, period: u32) -> Value {
    json!({
        "httpGet": {"host": "127.0.0.1", "path": path, "port": probe.port, "scheme": probe.scheme},
        "failureThreshold": if period == 1 { failures * 10 } else { failures },
        "initialDelaySeconds": 0,
        "periodSeconds": period,
        "timeoutSeconds": 15,
    })
}

/// Whether a path is one of ours, for callers that list the manifest folder.
#[must_use]
pub fn is_ours(path: &Path) -> bool {
    const NAMES: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    path.extension().is_some_and(|e| e == "yaml")
        && path.file_stem().and_then(|s| s.to_str()).is_some_and(|s| NAMES.contains(&s))
}

#[cfg(test)]
mod tests;
