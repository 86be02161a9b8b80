//! What the cluster itself holds for the appliance: the DNS Deployment behind the Service `kube-dns`, and the
//! administrators' binding. Applied with server-side apply under our own manager, so that what users change stays.

use copepod_client::{Client, Patch, ResourceRef, resources};
use serde_json::{Value, json};

use crate::error::BootstrapError;
use crate::manifests::COPEPOD_IMAGE;
use crate::node::Node;
use crate::pki::ADMINS;

const MANAGER: &str = "copepod";
const DNS: &str = "coredns";

/// One object and the resource it belongs to.
type Addon = (ResourceRef, Value);

/// Applies every addon.
///
/// # Errors
/// The first object the API server refuses; what was applied before stays.
pub async fn apply(client: &Client, node: &Node) -> Result<(), BootstrapError> {
    for (resource, object) in plan(node) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let target = resource.object(text("namespace"), text("name"));
        let what = format!("{} {}", resource.kind, text("name"));
        let patch = Patch::Apply { body: object, manager: MANAGER.to_owned(), force: true };
        client
            .patch::<Value>(&target, &patch)
            .await
            .map_err(|source| BootstrapError::Addon { object: what, source })?;
    }
    Ok(())
}

/// Every addon in the order it must be applied.
fn plan(node: &Node) -> Vec<Addon> {
    vec![
        (resources::CLUSTER_ROLE_BINDINGS, admins_binding()),
        (resources::SERVICE_ACCOUNTS, dns_account()),
        (resources::CLUSTER_ROLES, dns_role()),
        (resources::CLUSTER_ROLE_BINDINGS, dns_binding()),
        (resources::SERVICES, dns_service(node)),
        (resources::DEPLOYMENTS, dns_deployment(node)),
    ]
}

fn admins_binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ADMINS},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": ADMINS}],
    })
}

fn dns_account() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": DNS, "namespace": "kube-system"},
    })
}

fn dns_role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "system:coredns"},
        "rules": [
            {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        ],
    })
}

fn dns_binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "system:coredns"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
        "subjects": [{"kind": "ServiceAccount", "name": DNS, "namespace": "kube-system"}],
    })
}

fn dns_service(node: &Node) -> Value {
    let port = |name: &str, port: u16, protocol: &str| json!({"name": name, "port": port, "protocol": protocol, "targetPort": port});
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kube-dns",
            "namespace": "kube-system",
            "annotations": {"prometheus.io/port": "9153", "prometheus.io/scrape": "true"},
            "labels": {
                "k8s-app": "kube-dns",
                "kubernetes.io/cluster-service": "true",
                "kubernetes.io/name": "CoreDNS",
            },
        },
        "spec": {
            "clusterIP": node.config.dns_ip().map(|ip| ip.to_string()),
            "selector": {"k8s-app": "kube-dns"},
            "ports": [port("dns", 53, "UDP"), port("dns-tcp", 53, "TCP"), port("metrics", 9153, "TCP")],
        },
    })
}

fn dns_deployment(node: &Node) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": DNS, "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"k8s-app": "kube-dns"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": {"k8s-app": "kube-dns"}},
                "spec": {
                    "serviceAccountName": DNS,
                    "priorityClassName": "system-cluster-critical",
                    "dnsPolicy": "Default",
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "tolerations": [
                        {"key": "CriticalAddonsOnly", "operator": "Exists"},
                        {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
                    ],
                    "containers": [dns_container(node)],
                },
            },
        },
    })
}

fn dns_container(node: &Node) -> Value {
    let port = |name: &str, port: u16, protocol: &str| json!({"name": name, "containerPort": port, "protocol": protocol});
    let get = |path: &str, port: u16| json!({"path": path, "port": port, "scheme": "HTTP"});
    json!({
        "name": DNS,
        "image": COPEPOD_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["copepod", "dns"],
        "args": [format!("--cluster-domain={}", node.config.cluster_domain)],
        "ports": [port("dns", 53, "UDP"), port("dns-tcp", 53, "TCP"), port("metrics", 9153, "TCP")],
        "resources": {"limits": {"memory": "170Mi"}, "requests": {"cpu": "100m", "memory": "20Mi"}},
        "livenessProbe": {"httpGet": get("/health", 8080), "initialDelaySeconds": 60, "timeoutSeconds": 5},
        "readinessProbe": {"httpGet": get("/ready", 8181), "periodSeconds": 2},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use copepod_config::{Layout, NodeConfig};

    #[test]
    fn the_dns_service_has_the_tenth_address_and_selects_the_deployment() {
        let config = NodeConfig { node_ips: vec!["192.168.9.2".parse().unwrap()], ..NodeConfig::default() };
        let node = Node::resolve(Layout::new("/"), config, std::path::Path::new("/b")).unwrap();
        let addons = plan(&node);
        let find = |kind: &str| &addons.iter().find(|(resource, _)| resource.kind == kind).unwrap().1;
        assert_eq!(find("Service")["spec"]["clusterIP"], "10.96.0.10");
        assert_eq!(
            find("Service")["spec"]["selector"],
            find("Deployment")["spec"]["template"]["metadata"]["labels"]
        );
    }
}
