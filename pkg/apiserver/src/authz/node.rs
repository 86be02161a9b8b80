//! The Node authorizer: a kubelet reads only what its own pods refer to
//! (`k8s.io/kubernetes/plugin/pkg/auth/authorizer/node`).
//!
//! Upstream keeps a graph of all references. Here a question is answered from the watch cache: the pods of the one
//! node in the one namespace are few, and kubelets ask rarely (once a pod, not once a sync), so nothing is kept.

use copepod_api::FieldSelector;
use serde_json::Value;

use super::Check;
use super::rules::PolicyRule;
use crate::reader::Reader;
use crate::user::Identity as _;

/// Answers for users of `system:nodes`.
#[derive(Debug)]
pub(crate) struct NodeAuthorizer {
    /// Reads pods and volumes.
    pub reader: Reader,
    /// The rules of ClusterRole `system:node`, for what is not subdivided.
    pub rules: Vec<PolicyRule>,
}

/// Kinds of objects that pods refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Referent {
    Secret,
    ConfigMap,
    Claim,
    ResourceClaim,
    ServiceAccount,
}

type Answer = (bool, String);

fn allow() -> Answer {
    (true, String::new())
}

fn deny(reason: impl Into<String>) -> Answer {
    (false, reason.into())
}

impl NodeAuthorizer {
    /// Decides for a node; has no opinion on others.
    pub(crate) async fn authorize(&self, check: &Check<'_>) -> Answer {
        let Some(node) = check.user.node_name() else { return deny("") };
        if node.is_empty() {
            return deny(format!("unknown node for user {}", copepod_api::field::quote(&check.user.name)));
        }
        if check.is_resource {
            match (check.group, check.resource) {
                ("", "secrets") => return self.read_namespaced(node, Referent::Secret, check).await,
                ("", "configmaps") => return self.read_namespaced(node, Referent::ConfigMap, check).await,
                ("", "persistentvolumeclaims") => return self.claim(node, check).await,
                ("", "persistentvolumes") => return self.volume(node, check).await,
                ("resource.k8s.io", "resourceclaims") => {
                    return self.get_only(node, Referent::ResourceClaim, check).await;
                }
                ("resource.k8s.io", "resourceslices") => return self.slice(node, check).await,
                ("storage.k8s.io", "volumeattachments") => return self.attachment(node, check).await,
                ("", "serviceaccounts") => return self.service_account(node, check).await,
                ("coordination.k8s.io", "leases") => return lease(node, check),
                ("storage.k8s.io", "csinodes") => return csi_node(node, check),
                ("certificates.k8s.io", "podcertificaterequests") => {
                    return self.certificate_request(node, check).await;
                }
                ("", "nodes") => return own_node(node, check),
                ("", "pods") => return self.pod(node, check).await,
                _ => {}
            }
        }
        (self.rules.iter().any(|rule| rule.allows(check)), String::new())
    }

    async fn read_namespaced(&self, node: &str, kind: Referent, check: &Check<'_>) -> Answer {
        if !matches!(check.verb, "get" | "list" | "watch") {
            return deny("can only read resources of this type");
        }
        if !check.subresource.is_empty() {
            return deny("cannot read subresource");
        }
        if check.namespace.is_empty() {
            return deny("can only read namespaced object of this type");
        }
        self.related(node, kind, check).await
    }

    async fn get_only(&self, node: &str, kind: Referent, check: &Check<'_>) -> Answer {
        match only_get(check) {
            Some(no) => no,
            None => self.related(node, kind, check).await,
        }
    }

    async fn claim(&self, node: &str, check: &Check<'_>) -> Answer {
        if check.subresource != "status" {
            return self.get_only(node, Referent::Claim, check).await;
        }
        if !matches!(check.verb, "update" | "patch") {
            return deny("can only get/update/patch this type");
        }
        self.related(node, Referent::Claim, check).await
    }

    async fn service_account(&self, node: &str, check: &Check<'_>) -> Answer {
        if check.verb == "get" && check.subresource.is_empty() {
            return self.read_namespaced(node, Referent::ServiceAccount, check).await;
        }
        if check.verb != "create" || check.name.is_empty() {
            return deny("can only create tokens for individual service accounts");
        }
        if check.subresource != "token" {
            return deny("can only create token subresource of serviceaccount");
        }
        self.related(node, Referent::ServiceAccount, check).await
    }

    async fn volume(&self, node: &str, check: &Check<'_>) -> Answer {
        if let Some(no) = only_get(check) {
            return no;
        }
        let Some(volume) = self.reader.get("", "persistentvolumes", None, check.name).await else {
            return unrelated(node);
        };
        let claim = |field: &str| volume["spec"]["claimRef"][field].as_str().unwrap_or_default();
        if self.referenced(node, Referent::Claim, claim("namespace"), claim("name")).await {
            return allow();
        }
        unrelated(node)
    }

    async fn attachment(&self, node: &str, check: &Check<'_>) -> Answer {
        if let Some(no) = only_get(check) {
            return no;
        }
        let object = self.reader.get("storage.k8s.io", "volumeattachments", None, check.name).await;
        if object.is_some_and(|o| o["spec"]["nodeName"].as_str() == Some(node)) {
            return allow();
        }
        unrelated(node)
    }

    async fn slice(&self, node: &str, check: &Check<'_>) -> Answer {
        if !check.subresource.is_empty() {
            return deny("cannot authorize ResourceSlice subresources");
        }
        match check.verb {
            "create" => allow(),
            "list" | "watch" | "deletecollection" => {
                if selects(check.field_selector, "spec.nodeName", node) {
                    return allow();
                }
                deny("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            _ => {
                let object = self.reader.get("resource.k8s.io", "resourceslices", None, check.name).await;
                if object.is_some_and(|o| o["spec"]["nodeName"].as_str() == Some(node)) {
                    return allow();
                }
                unrelated(node)
            }
        }
    }

    async fn certificate_request(&self, node: &str, check: &Check<'_>) -> Answer {
        if !check.subresource.is_empty() {
            return deny("nodes may not access the status subresource of PodCertificateRequests");
        }
        match check.verb {
            // Admission looks closer.
            "create" => allow(),
            "get" => {
                let (group, resource) = (check.group, check.resource);
                let object = self.reader.get(group, resource, Some(check.namespace), check.name).await;
                if object.is_some_and(|o| o["spec"]["nodeName"].as_str() == Some(node)) {
                    return allow();
                }
                unrelated(node)
            }
            "list" | "watch" if selects(check.field_selector, "spec.nodeName", node) => allow(),
            "list" | "watch" => {
                deny("can only list/watch podcertificaterequests with nodeName field selector")
            }
            verb => deny(format!("nodes may not {verb} podcertificaterequests")),
        }
    }

    async fn pod(&self, node: &str, check: &Check<'_>) -> Answer {
        match (check.subresource, check.verb) {
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => allow(),
            ("", "get") => self.own_pod(node, check).await,
            ("", "list" | "watch") => {
                if selects(check.field_selector, "spec.nodeName", node) {
                    allow()
                } else if check.name.is_empty() {
                    deny("can only list/watch pods with spec.nodeName field selector")
                } else {
                    self.own_pod(node, check).await
                }
            }
            _ => deny(""),
        }
    }

    async fn own_pod(&self, node: &str, check: &Check<'_>) -> Answer {
        let pod = self.reader.get("", "pods", Some(check.namespace), check.name).await;
        if pod.is_some_and(|p| p["spec"]["nodeName"].as_str() == Some(node)) {
            allow()
        } else {
            unrelated(node)
        }
    }

    async fn related(&self, node: &str, kind: Referent, check: &Check<'_>) -> Answer {
        if check.name.is_empty() {
            return deny("No Object name found");
        }
        if self.referenced(node, kind, check.namespace, check.name).await {
            return allow();
        }
        if kind == Referent::Secret && self.secret_of_volume(node, check).await {
            return allow();
        }
        unrelated(node)
    }

    async fn pods(&self, node: &str, namespace: &str) -> Vec<Value> {
        self.reader.list("", "pods", Some(namespace), &format!("spec.nodeName={node}")).await
    }

    async fn referenced(&self, node: &str, kind: Referent, namespace: &str, name: &str) -> bool {
        if namespace.is_empty() || name.is_empty() {
            return false;
        }
        self.pods(node, namespace).await.iter().any(|pod| refers(pod, kind, name))
    }

    /// Secrets that the volumes of the node's pods name; they may live in another namespace than the pod.
    async fn secret_of_volume(&self, node: &str, check: &Check<'_>) -> bool {
        for volume in self.reader.list("", "persistentvolumes", None, "").await {
            let claim = |field: &str| volume["spec"]["claimRef"][field].as_str().unwrap_or_default();
            let namespace = claim("namespace");
            if names_secret(&volume["spec"], check.namespace, check.name, namespace)
                && self.referenced(node, Referent::Claim, namespace, claim("name")).await
            {
                return true;
            }
        }
        false
    }
}

fn unrelated(node: &str) -> Answer {
    deny(format!("no relationship found between node '{node}' and this object"))
}

fn only_get(check: &Check<'_>) -> Option<Answer> {
    if check.verb != "get" {
        return Some(deny("can only get individual resources of this type"));
    }
    (!check.subresource.is_empty()).then(|| deny("cannot get subresource"))
}

fn selects(selector: &str, field: &str, value: &str) -> bool {
    FieldSelector::parse(selector).is_ok_and(|s| s.required(field) == Some(value))
}

fn lease(node: &str, check: &Check<'_>) -> Answer {
    if !matches!(check.verb, "get" | "create" | "update" | "patch" | "delete") {
        return deny("can only get, create, update, patch, or delete a node lease");
    }
    if check.namespace != "kube-node-lease" {
        return deny("can only access leases in the \"kube-node-lease\" system namespace");
    }
    if check.verb != "create" && check.name != node {
        return deny("can only access node lease with the same name as the requesting node");
    }
    allow()
}

fn csi_node(node: &str, check: &Check<'_>) -> Answer {
    match check.subresource {
        "" if matches!(check.verb, "get" | "create" | "update" | "patch" | "delete") => {}
        "" => return deny("can only get, create, update, patch, or delete a CSINode"),
        _ => return deny("cannot authorize CSINode subresources"),
    }
    if check.verb != "create" && check.name != node {
        return deny("can only access CSINode with the same name as the requesting node");
    }
    allow()
}

fn own_node(node: &str, check: &Check<'_>) -> Answer {
    match (check.subresource, check.verb) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => allow(),
        ("", "get" | "list" | "watch") => match check.name {
            name if name == node => allow(),
            "" => deny(format!("node '{node}' cannot read all nodes, only its own Node object")),
            other => deny(format!("node '{node}' cannot read '{other}', only its own Node object")),
        },
        _ => deny(""),
    }
}

/// Whether a pod refers to an object of its namespace. Mirror pods refer to nothing: a node makes them itself.
fn refers(pod: &Value, kind: Referent, name: &str) -> bool {
    if copepod_api::meta::annotation(pod, "kubernetes.io/config.mirror").is_some() {
        return false;
    }
    let spec = &pod["spec"];
    match kind {
        Referent::ServiceAccount => spec["serviceAccountName"].as_str() == Some(name),
        Referent::Secret => {
            let pull = spec["imagePullSecrets"].as_array().into_iter().flatten();
            pull.clone().any(|s| s["name"].as_str() == Some(name))
                || walk(
                    spec,
                    &["secretKeyRef", "secretRef", "secret", "nodePublishSecretRef"],
                    &["secretName", "name"],
                    name,
                )
        }
        Referent::ConfigMap => walk(spec, &["configMapKeyRef", "configMapRef", "configMap"], &["name"], name),
        Referent::Claim => {
            walk(spec, &["persistentVolumeClaim"], &["claimName"], name)
                || spec["volumes"].as_array().into_iter().flatten().any(|v| {
                    v.get("ephemeral").is_some()
                        && name
                            == format!(
                                "{}-{}",
                                copepod_api::meta::name(pod),
                                v["name"].as_str().unwrap_or_default()
                            )
                })
        }
        Referent::ResourceClaim => {
            let listed = |list: &Value| {
                list.as_array().into_iter().flatten().any(|c| c["resourceClaimName"].as_str() == Some(name))
            };
            listed(&spec["resourceClaims"]) || listed(&pod["status"]["resourceClaimStatuses"])
        }
    }
}

/// Whether below a key of `holders` a field of `fields` has this value.
fn walk(value: &Value, holders: &[&str], fields: &[&str], wanted: &str) -> bool {
    match value {
        Value::Array(list) => list.iter().any(|item| walk(item, holders, fields, wanted)),
        Value::Object(map) => map.iter().any(|(key, child)| {
            let here = holders.contains(&key.as_str());
            (here && fields.iter().any(|f| child.get(f).and_then(Value::as_str) == Some(wanted)))
                || walk(child, holders, fields, wanted)
        }),
        _ => false,
    }
}

/// Whether a volume's spec names a secret; references without a namespace mean the claim's.
fn names_secret(value: &Value, namespace: &str, name: &str, default_namespace: &str) -> bool {
    match value {
        Value::Array(list) => list.iter().any(|item| names_secret(item, namespace, name, default_namespace)),
        Value::Object(map) => map.iter().any(|(key, child)| {
            let secret = key.ends_with("SecretRef") || key == "secretRef";
            let at = child["namespace"].as_str().filter(|n| !n.is_empty()).unwrap_or(default_namespace);
            (secret && child["name"].as_str() == Some(name) && at == namespace)
                || names_secret(child, namespace, name, default_namespace)
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_of_a_pod() {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {
            "serviceAccountName": "bot",
            "imagePullSecrets": [{"name": "pull"}],
            "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}}],
                "envFrom": [{"configMapRef": {"name": "all"}}]}],
            "volumes": [{"name": "a", "projected": {"sources": [{"configMap": {"name": "ca"}}, {"secret": {"name": "proj"}}]}},
                {"name": "s", "secret": {"secretName": "vol"}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "e", "ephemeral": {}}]}});
        for name in ["pull", "env", "proj", "vol"] {
            assert!(refers(&pod, Referent::Secret, name), "{name}");
        }
        assert!(!refers(&pod, Referent::Secret, "data"));
        assert!(refers(&pod, Referent::ConfigMap, "all") && refers(&pod, Referent::ConfigMap, "ca"));
        assert!(refers(&pod, Referent::Claim, "data") && refers(&pod, Referent::Claim, "p-e"));
        assert!(refers(&pod, Referent::ServiceAccount, "bot"));
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
        assert!(!refers(&pod, Referent::Secret, "vol"));
    }

    #[test]
    fn secrets_of_volumes() {
        let spec = json!({"csi": {"nodeStageSecretRef": {"name": "s", "namespace": "kube-system"}}, "rbd": {"secretRef": {"name": "r"}}});
        assert!(names_secret(&spec, "kube-system", "s", "dev"));
        assert!(!names_secret(&spec, "dev", "s", "dev"));
        assert!(names_secret(&spec, "dev", "r", "dev"));
    }
}
