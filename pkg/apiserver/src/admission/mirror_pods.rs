//! MirrorPods: a mirror shows a static pod; what the pod is stands in a manifest on its node, so a change of the
//! mirror's spec is refused and says where to make it. (Upstream accepts such an edit and nothing comes of it.)

use async_trait::async_trait;
use copepod_api::{ApiResult, meta};
use copepod_registry::{Admission, Attributes, Operation};
use serde_json::Value;

use super::{forbid, is_mirror};

#[derive(Debug)]
pub(super) struct MirrorPods;

#[async_trait]
impl Admission for MirrorPods {
    fn name(&self) -> &'static str {
        "MirrorPods"
    }

    async fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> ApiResult<()> {
        match (attributes.old, object) {
            (Some(old), Some(new)) if refused(attributes, old, new) => {
                Err(forbid(attributes, Some(new), why(old)))
            }
            _ => Ok(()),
        }
    }
}

fn refused(attributes: &Attributes<'_>, old: &Value, new: &Value) -> bool {
    let pods = attributes.resource.group.is_empty() && attributes.resource.resource == "pods";
    let spec = matches!(attributes.subresource, "" | "resize" | "ephemeralcontainers");
    attributes.operation == Operation::Update && pods && spec && is_mirror(old) && old["spec"] != new["spec"]
}

fn why(old: &Value) -> String {
    let node = old["spec"]["nodeName"].as_str().unwrap_or_default();
    let name = meta::name(old);
    let manifest = name.strip_suffix(node).and_then(|n| n.strip_suffix('-')).unwrap_or(name);
    format!(
        "it mirrors a static pod and is read-only; edit its manifest on node {node}, as a rule \
         /etc/kubernetes/manifests/{manifest}.yaml"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_manifest_is_named() {
        let pod = json!({"metadata": {"name": "kube-scheduler-n1"}, "spec": {"nodeName": "n1"}});
        assert!(why(&pod).ends_with("/etc/kubernetes/manifests/kube-scheduler.yaml"), "{}", why(&pod));
    }
}
