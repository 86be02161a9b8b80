//! Kubeconfigs: one identity per component, as kubeadm names them.

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use copepod_pki::Leaf;
use jiff::Timestamp;
use serde_json::json;

use crate::error::{BootstrapError, file};
use crate::node::Node;
use crate::pki::{ADMINS, Authorities, MASTERS};
use crate::write::{make_dir, write_if_changed};

/// A component's identity: the file below `/etc/kubernetes`, the user and the group.
#[derive(Debug, Clone, Copy)]
struct Identity {
    file: &'static str,
    user: &'static str,
    group: Option<&'static str>,
}

const IDENTITIES: [Identity; 5] = [
    Identity { file: "admin", user: "kubernetes-admin", group: Some(ADMINS) },
    Identity { file: "super-admin", user: "kubernetes-super-admin", group: Some(MASTERS) },
    Identity { file: "controller-manager", user: "system:kube-controller-manager", group: None },
    Identity { file: "scheduler", user: "system:kube-scheduler", group: None },
    Identity { file: "kube-proxy", user: "system:kube-proxy", group: None },
];

/// Writes every kubeconfig whose certificate is missing or about to end; returns the paths written.
///
/// # Errors
/// Names the file that cannot be written.
pub fn ensure(
    node: &Node,
    authorities: &Authorities,
    now: Timestamp,
) -> Result<Vec<PathBuf>, BootstrapError> {
    let kubelet = format!("system:node:{}", node.config.node_name);
    let named = IDENTITIES.iter().map(|i| (i.file, i.user, i.group));
    let mut written = Vec::new();
    for (name, user, group) in named.chain([("kubelet", kubelet.as_str(), Some("system:nodes"))]) {
        let leaf = Leaf::client(user, group);
        let stem = node.layout.data().join("identities").join(name);
        authorities.cluster.ensure_leaf(&stem, &leaf, now)?;
        let path = node.layout.kubeconfig(name);
        let read = |extension| {
            let path = stem.with_extension(extension);
            std::fs::read_to_string(&path).map_err(file("read", &path))
        };
        let text = render(node, authorities.cluster.pem(), user, &read("crt")?, &read("key")?)?;
        make_dir(&node.layout.kubernetes())?;
        if write_if_changed(&path, &text, 0o600)? {
            written.push(path);
        }
    }
    Ok(written)
}

/// A kubeconfig in kubeadm's form, everything embedded, so that the one file can be copied away.
fn render(node: &Node, ca: &str, user: &str, certificate: &str, key: &str) -> Result<String, BootstrapError> {
    let cluster = "kubernetes";
    let context = format!("{user}@{cluster}");
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [{"name": cluster, "cluster": {
            "certificate-authority-data": STANDARD.encode(ca),
            "server": node.api_server(),
        }}],
        "users": [{"name": user, "user": {
            "client-certificate-data": STANDARD.encode(certificate),
            "client-key-data": STANDARD.encode(key),
        }}],
        "contexts": [{"name": context, "context": {"cluster": cluster, "user": user}}],
        "current-context": context,
    });
    to_yaml(&document, user)
}

/// A document as YAML.
pub(crate) fn to_yaml(document: &serde_json::Value, what: &str) -> Result<String, BootstrapError> {
    serde_saphyr::to_string(document)
        .map_err(|e| BootstrapError::Render { what: what.to_owned(), why: e.to_string() })
}
