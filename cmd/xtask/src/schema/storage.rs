//! What no published document says about a resource: its etcd prefix, storage version and selectable fields.
//! Facts of upstream's `pkg/kubeapiserver` and of the field-label conversions of its API groups.

/// The prefix of the keys below `/registry/`.
pub(crate) fn prefix(group: &str, plural: &str) -> String {
    match (group, plural) {
        ("", "replicationcontrollers") => "controllers".to_owned(),
        ("", "endpoints" | "services") => {
            format!("services/{}", if plural == "services" { "specs" } else { plural })
        }
        ("", "nodes") => "minions".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", _) => format!("{group}/{plural}"),
        _ => plural.to_owned(),
    }
}

/// The version objects are stored in. Events are stored as core events, whichever group wrote them.
pub(crate) fn version(group: &str, plural: &str, served: &str) -> String {
    match (group, plural) {
        ("autoscaling", "horizontalpodautoscalers") => "v2".to_owned(),
        _ => served.to_owned(),
    }
}

/// Field selectors beyond name and namespace, as label and JSON path.
pub(crate) fn selectable(group: &str, kind: &str) -> Vec<(String, String)> {
    let labels: &[&str] = match (group, kind) {
        ("", "Pod") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "Node") => &["spec.unschedulable"],
        ("", "ReplicationController") => &["status.replicas"],
        ("", "Namespace") => &["status.phase"],
        ("", "Secret") => &["type"],
        ("", "Service") => &["spec.clusterIP", "spec.type"],
        ("", "Event") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "Event") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("batch", "Job") => &["status.successful"],
        ("certificates.k8s.io", "CertificateSigningRequest" | "ClusterTrustBundle") => &["spec.signerName"],
        ("certificates.k8s.io", "PodCertificateRequest") => {
            &["spec.signerName", "spec.podName", "spec.nodeName"]
        }
        ("resource.k8s.io", "ResourceSlice") => &["spec.nodeName", "spec.driver", "spec.pool.name"],
        _ => &[],
    };
    labels.iter().map(|label| ((*label).to_owned(), path(kind, label))).collect()
}

/// The JSON path behind a label; most labels are paths.
fn path(kind: &str, label: &str) -> String {
    match (kind, label) {
        ("Event", "source") => ".source.component".to_owned(),
        ("Job", "status.successful") => ".status.succeeded".to_owned(),
        _ => format!(".{label}"),
    }
}
