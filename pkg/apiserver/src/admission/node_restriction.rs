//! NodeRestriction: a kubelet changes only its own node, its own pods, and asks tokens only for them.

use async_trait::async_trait;
use copepod_api::{ApiError, ApiResult, GroupResource, field::quote, meta};
use copepod_registry::{Admission, Attributes, Operation};
use serde_json::Value;

use super::{Deps, forbid, is_mirror, items, text};
use crate::user::Identity as _;

/// Labels in Kubernetes' own domains that a kubelet may set on its node.
const KUBELET_LABELS: &[&str] = &[
    "kubernetes.io/hostname",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];
/// Domains whose labels are the kubelet's.
const KUBELET_DOMAINS: &[&str] = &["kubelet.kubernetes.io", "node.kubernetes.io"];

#[derive(Debug)]
pub(super) struct NodeRestriction(pub Deps);

/// A refusal's text, or an error of its own (404).
enum Refusal {
    Why(String),
    Error(ApiError),
}

impl<T: Into<String>> From<T> for Refusal {
    fn from(why: T) -> Self {
        Self::Why(why.into())
    }
}

#[async_trait]
impl Admission for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> ApiResult<()> {
        self.run(attributes, Some(object)).await
    }

    async fn admit_delete(&self, attributes: &Attributes<'_>) -> ApiResult<()> {
        self.run(attributes, None).await
    }
}

impl NodeRestriction {
    async fn run(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> ApiResult<()> {
        let Some(node) = attributes.user.node_name() else { return Ok(()) };
        if node.is_empty() {
            let why = format!("could not determine node from user {}", quote(&attributes.user.name));
            return Err(forbid(attributes, object, why));
        }
        match self.admit(node, attributes, object.unwrap_or(&Value::Null)).await {
            Ok(()) => Ok(()),
            Err(Refusal::Why(why)) => Err(forbid(attributes, object, why)),
            Err(Refusal::Error(error)) => Err(error),
        }
    }

    async fn admit(&self, node: &str, a: &Attributes<'_>, new: &Value) -> Result<(), Refusal> {
        let old = a.old.unwrap_or(&Value::Null);
        match (a.resource.group.as_str(), a.resource.resource.as_str(), a.subresource) {
            ("", "pods", "") => self.pod(node, a, new, old).await,
            ("", "pods", "status") => pod_status(node, new, old),
            ("", "pods", "eviction") => {
                let pod = self.pod_of(a, if a.name.is_empty() { meta::name(new) } else { a.name }).await?;
                if text(&pod["spec"], "nodeName") == node {
                    return Ok(());
                }
                Err(format!("node {node} can only evict pods with spec.nodeName set to itself").into())
            }
            ("", "pods", other) => Err(format!(
                "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
                quote(other)
            )
            .into()),
            ("", "nodes", _) => own_node(node, a, new, old),
            ("", "persistentvolumeclaims", "status") => claim_status(node, new, old),
            ("", "persistentvolumeclaims", _) => Err("may only update PVC status".into()),
            ("", "serviceaccounts", "token") if a.operation == Operation::Create => {
                self.token(node, a, new).await
            }
            ("coordination.k8s.io", "leases", _) => lease(node, a, new),
            ("storage.k8s.io", "csinodes", _) => {
                let name = if a.operation == Operation::Create { meta::name(new) } else { a.name };
                if name == node {
                    return Ok(());
                }
                Err("can only access CSINode with the same name as the requesting node".into())
            }
            ("resource.k8s.io", "resourceslices", _) => slice(node, a, new, old),
            ("certificates.k8s.io", "podcertificaterequests", _) => {
                self.certificate_request(node, a, new).await
            }
            ("certificates.k8s.io", "certificatesigningrequests", "") if a.operation == Operation::Create => {
                signing_request(node, new)
            }
            _ => Ok(()),
        }
    }

    async fn pod_of(&self, a: &Attributes<'_>, name: &str) -> Result<Value, Refusal> {
        let found = self.0.reader.get("", "pods", Some(a.namespace), name).await;
        found.ok_or_else(|| Refusal::Error(ApiError::not_found(&GroupResource::new("", "pods"), name)))
    }

    async fn pod(&self, node: &str, a: &Attributes<'_>, new: &Value, old: &Value) -> Result<(), Refusal> {
        match a.operation {
            Operation::Create => self.mirror_pod(node, new).await,
            Operation::Delete if text(&old["spec"], "nodeName") == node => Ok(()),
            Operation::Delete => {
                Err(format!("node {} can only delete pods with spec.nodeName set to itself", quote(node))
                    .into())
            }
            other => Err(format!(
                "unexpected operation {}, node {} can only create and delete mirror pods",
                quote(other.as_str()),
                quote(node)
            )
            .into()),
        }
    }

    async fn mirror_pod(&self, node: &str, pod: &Value) -> Result<(), Refusal> {
        let quoted = quote(node);
        if !is_mirror(pod) {
            let key = quote("kubernetes.io/config.mirror");
            return Err(format!(
                "pod does not have {key} annotation, node {quoted} can only create mirror pods"
            )
            .into());
        }
        if text(&pod["spec"], "nodeName") != node {
            return Err(format!("node {quoted} can only create pods with spec.nodeName set to itself").into());
        }
        let owners: Vec<&Value> = items(&pod["metadata"], "ownerReferences").collect();
        let [owner] = owners.as_slice() else {
            let what = if owners.is_empty() { "an owner reference" } else { "a single owner reference" };
            return Err(format!("node {quoted} can only create pods with {what} set to itself").into());
        };
        if (text(owner, "apiVersion"), text(owner, "kind"), text(owner, "name")) != ("v1", "Node", node) {
            return Err(
                format!("node {quoted} can only create pods with an owner reference set to itself").into()
            );
        }
        if owner["controller"].as_bool() != Some(true) {
            return Err(format!(
                "node {quoted} can only create pods with a controller owner reference set to itself"
            )
            .into());
        }
        if owner["blockOwnerDeletion"].as_bool() == Some(true) {
            return Err(format!("node {quoted} must not set blockOwnerDeletion on an owner reference").into());
        }
        let Some(object) = self.0.reader.get("", "nodes", None, node).await else {
            return Err(Refusal::Error(ApiError::not_found(&GroupResource::new("", "nodes"), node)));
        };
        let (expected, got) = (meta::uid(&object), text(owner, "uid"));
        if expected != got {
            return Err(format!("node {node} UID mismatch: expected {expected} got {got}").into());
        }
        match referenced(pod) {
            Some(what) => Err(format!("node {quoted} can not create pods that reference {what}").into()),
            None => Ok(()),
        }
    }

    async fn token(&self, node: &str, a: &Attributes<'_>, request: &Value) -> Result<(), Refusal> {
        let reference = &request["spec"]["boundObjectRef"];
        if (text(reference, "apiVersion"), text(reference, "kind")) != ("v1", "Pod")
            || text(reference, "name").is_empty()
        {
            return Err("node requested token not bound to a pod".into());
        }
        let uid = text(reference, "uid");
        if uid.is_empty() {
            return Err("node requested token with a pod binding without a uid".into());
        }
        let pod = self.pod_of(a, text(reference, "name")).await?;
        if meta::uid(&pod) != uid {
            return Err(format!("the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated").into());
        }
        if text(&pod["spec"], "nodeName") != node {
            return Err("node requested token bound to a pod scheduled on a different node".into());
        }
        Ok(())
    }

    /// A node asks for certificates of pods that run on it and that ask for them.
    async fn certificate_request(
        &self,
        node: &str,
        a: &Attributes<'_>,
        request: &Value,
    ) -> Result<(), Refusal> {
        if a.operation != Operation::Create {
            return Err(format!("unexpected operation {}", a.operation.as_str()).into());
        }
        if !a.subresource.is_empty() {
            return Err(format!("unexpected subresource {}", a.subresource).into());
        }
        let spec = |field: &str| text(&request["spec"], field);
        // What may merely be late in a cache is no refusal for good.
        let late = |why: String| Err(Refusal::Error(ApiError::internal(why)));
        if spec("nodeName") != node {
            let (named, node) = (quote(spec("nodeName")), quote(node));
            return Err(format!(
                "PodCertificateRequest.Spec.NodeName={named}, which is not the requesting node {node}"
            )
            .into());
        }
        let full = quote(&format!("{}/{}", a.namespace, spec("podName")));
        let own = self.0.reader.get("", "nodes", None, node).await.unwrap_or_default();
        if meta::uid(&own) != spec("nodeUID") {
            return late(format!(
                "PodCertificateRequest for pod {full} names node UID {}, inconsistent with the running node ({})",
                quote(spec("nodeUID")),
                quote(meta::uid(&own))
            ));
        }
        let pod = self.certificate_pod(node, a, request).await?;
        let account = text(&pod["spec"], "serviceAccountName");
        if spec("serviceAccountName") != account {
            return Err(format!(
                "PodCertificateRequest for pod {full} contains serviceAccountName ({}) that differs from running pod ({})",
                quote(spec("serviceAccountName")),
                quote(account)
            )
            .into());
        }
        let found = self.0.reader.get("", "serviceaccounts", Some(a.namespace), account).await;
        let found = found.unwrap_or_default();
        if meta::uid(&found) != spec("serviceAccountUID") {
            return late(format!(
                "PodCertificateRequest for pod {full} names service account UID {}, which differs from the running service account ({})",
                quote(spec("serviceAccountUID")),
                quote(meta::uid(&found))
            ));
        }
        let projected = items(&pod["spec"], "volumes").filter_map(|v| v.get("projected"));
        let mut wanted = projected.flat_map(|p| items(p, "sources")).filter_map(|s| s.get("podCertificate"));
        if wanted.any(|c| text(c, "signerName") == spec("signerName")) {
            return Ok(());
        }
        let signer = quote(spec("signerName"));
        Err(format!("pod {full} does not mount a podCertificate projected volume for signer {signer}").into())
    }

    /// The pod a certificate is asked for: a real one that runs on the node.
    async fn certificate_pod(
        &self,
        node: &str,
        a: &Attributes<'_>,
        request: &Value,
    ) -> Result<Value, Refusal> {
        let spec = |field: &str| text(&request["spec"], field);
        let late = |why: String| Err(Refusal::Error(ApiError::internal(why)));
        let full = quote(&format!("{}/{}", a.namespace, spec("podName")));
        let pod = self.pod_of(a, spec("podName")).await?;
        if meta::uid(&pod) != spec("podUID") {
            return late(format!(
                "PodCertificateRequest for pod {full} contains pod UID ({}) which differs from running pod {}",
                quote(spec("podUID")),
                quote(meta::uid(&pod))
            ));
        }
        if text(&pod["spec"], "nodeName") != node {
            let node = quote(node);
            return Err(format!(
                "pod {full} is not running on node {node} named in the PodCertificateRequest"
            )
            .into());
        }
        if is_mirror(&pod) {
            return Err(format!("pod {full} is a mirror pod").into());
        }
        Ok(pod)
    }
}

/// The kind of object a mirror pod refers to, which it must not.
fn referenced(pod: &Value) -> Option<&'static str> {
    let spec = &pod["spec"];
    if !text(spec, "serviceAccountName").is_empty() {
        return Some("serviceaccounts");
    }
    let containers = ["containers", "initContainers", "ephemeralContainers"];
    let env = |from: &str, all: &str| {
        containers.iter().flat_map(|l| items(spec, l)).any(|c| {
            items(c, "env").any(|e| e["valueFrom"].get(from).is_some())
                || items(c, "envFrom").any(|e| e.get(all).is_some())
        })
    };
    let volume = |source: &str| {
        items(spec, "volumes").any(|v| {
            v.get(source).is_some()
                || v.get("projected").is_some_and(|p| items(p, "sources").any(|s| s.get(source).is_some()))
        })
    };
    if env("secretKeyRef", "secretRef")
        || volume("secret")
        || items(spec, "imagePullSecrets").next().is_some()
    {
        return Some("secrets");
    }
    if env("configMapKeyRef", "configMapRef") || volume("configMap") {
        return Some("configmaps");
    }
    if volume("clusterTrustBundle") {
        return Some("clustertrustbundles");
    }
    if volume("persistentVolumeClaim") {
        return Some("persistentvolumeclaims");
    }
    items(spec, "resourceClaims").next().map(|_| "resourceclaims")
}

fn pod_status(node: &str, new: &Value, old: &Value) -> Result<(), Refusal> {
    let quoted = quote(node);
    if text(&old["spec"], "nodeName") != node {
        return Err(format!(
            "node {quoted} can only update pod status for pods with spec.nodeName set to itself"
        )
        .into());
    }
    if meta::labels(new) != meta::labels(old) {
        return Err(format!("node {quoted} cannot update labels through pod status").into());
    }
    for (field, what) in [
        ("resourceClaimStatuses", "resource claim statues"),
        ("extendedResourceClaimStatus", "extended resource claim status"),
    ] {
        if new["status"].get(field) != old["status"].get(field) {
            return Err(format!("node {quoted} cannot update {what}").into());
        }
    }
    Ok(())
}

fn own_node(node: &str, a: &Attributes<'_>, new: &Value, old: &Value) -> Result<(), Refusal> {
    let requested = if a.name.is_empty() { meta::name(new) } else { a.name };
    if requested != node {
        return Err(format!("node {} is not allowed to modify node {}", quote(node), quote(requested)).into());
    }
    if !matches!(a.operation, Operation::Create | Operation::Update) {
        return Ok(());
    }
    let forbidden = forbidden_labels(new, old);
    if a.operation == Operation::Create {
        if forbidden.is_empty() {
            return Ok(());
        }
        let list = forbidden.join(", ");
        return Err(format!("node {} is not allowed to set the following labels: {list}", quote(node)).into());
    }
    if new["spec"].get("taints") != old["spec"].get("taints") {
        return Err(format!("node {} is not allowed to modify taints", quote(node)).into());
    }
    if new["metadata"].get("ownerReferences") != old["metadata"].get("ownerReferences") {
        return Err(format!("node {} is not allowed to modify ownerReferences", quote(node)).into());
    }
    if !forbidden.is_empty() {
        return Err(format!("is not allowed to modify labels: {}", forbidden.join(", ")).into());
    }
    Ok(())
}

/// Changed labels that are not the kubelet's to change, sorted.
fn forbidden_labels(new: &Value, old: &Value) -> Vec<String> {
    let empty = serde_json::Map::new();
    let (new, old) = (meta::labels(new).unwrap_or(&empty), meta::labels(old).unwrap_or(&empty));
    let mut keys: Vec<&String> =
        new.keys().chain(old.keys()).filter(|k| new.get(*k) != old.get(*k)).collect();
    keys.sort();
    keys.dedup();
    let in_domain = |key: &str, domain: &str| {
        key.split_once('/')
            .is_some_and(|(ns, _)| ns == domain || ns.strip_suffix(domain).is_some_and(|p| p.ends_with('.')))
    };
    let forbidden = |key: &&String| {
        let kubernetes = in_domain(key, "kubernetes.io") || in_domain(key, "k8s.io");
        let own = KUBELET_LABELS.contains(&key.as_str()) || KUBELET_DOMAINS.iter().any(|d| in_domain(key, d));
        in_domain(key, "node-restriction.kubernetes.io") || (kubernetes && !own)
    };
    keys.into_iter().filter(forbidden).cloned().collect()
}

fn claim_status(node: &str, new: &Value, old: &Value) -> Result<(), Refusal> {
    let stripped = |claim: &Value| {
        let mut claim = claim.clone();
        for field in ["resourceVersion", "managedFields"] {
            claim["metadata"].as_object_mut().and_then(|m| m.remove(field));
        }
        for field in ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"] {
            claim["status"].as_object_mut().and_then(|m| m.remove(field));
        }
        claim
    };
    if stripped(new) == stripped(old) {
        return Ok(());
    }
    Err(format!(
        "node {} is not allowed to update fields other than status.quantity and status.conditions",
        quote(node)
    )
    .into())
}

fn lease(node: &str, a: &Attributes<'_>, new: &Value) -> Result<(), Refusal> {
    if a.namespace != "kube-node-lease" {
        return Err("can only access leases in the \"kube-node-lease\" system namespace".into());
    }
    let name = if a.operation == Operation::Create { meta::name(new) } else { a.name };
    if name != node {
        return Err("can only access node lease with the same name as the requesting node".into());
    }
    Ok(())
}

fn slice(node: &str, a: &Attributes<'_>, new: &Value, old: &Value) -> Result<(), Refusal> {
    let object = if a.operation == Operation::Create { new } else { old };
    if text(&object["spec"], "nodeName") == node {
        return Ok(());
    }
    let verb = a.operation.as_str().to_ascii_lowercase();
    Err(format!("can only {verb} ResourceSlice with the same NodeName as the requesting node").into())
}

/// A kubelet may ask for certificates of its own name only.
fn signing_request(node: &str, request: &Value) -> Result<(), Refusal> {
    let signer = text(&request["spec"], "signerName");
    if !matches!(signer, "kubernetes.io/kubelet-serving" | "kubernetes.io/kube-apiserver-client-kubelet") {
        return Ok(());
    }
    let expected = format!("system:node:{node}");
    match super::certificates::common_name(text(&request["spec"], "request")) {
        Some(name) if name == expected => Ok(()),
        Some(_) => Err(format!("can only create a node CSR with CN={expected}").into()),
        None => Err("unable to parse csr".into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_a_kubelet_may_not_touch() {
        let with = |labels: Value| json!({"metadata": {"labels": labels}});
        let old = with(json!({"a": "1", "node-role.kubernetes.io/control-plane": ""}));
        let new = with(json!({"a": "2", "kubernetes.io/hostname": "x", "node.kubernetes.io/foo": "y",
            "x.node-restriction.kubernetes.io/z": "1"}));
        assert_eq!(
            forbidden_labels(&new, &old),
            ["node-role.kubernetes.io/control-plane", "x.node-restriction.kubernetes.io/z"]
        );
        assert!(forbidden_labels(&old, &old).is_empty());
    }

    #[test]
    fn mirror_pods_with_references() {
        assert_eq!(referenced(&json!({"spec": {"volumes": [{"name": "h", "hostPath": {}}]}})), None);
        let projected = json!({"spec": {"volumes": [{"projected": {"sources": [{"configMap": {}}]}}]}});
        assert_eq!(referenced(&projected), Some("configmaps"));
    }
}
