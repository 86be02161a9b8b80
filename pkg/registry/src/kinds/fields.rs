//! Field selectors of built-in kinds beyond `metadata.name` and `metadata.namespace`.

/// One selectable field: its label in selectors, the path of its value below the object, and what an absent value
/// reads as.
pub type SelectableField = (&'static str, &'static str, &'static str);

const PODS: &[SelectableField] = &[
    ("spec.nodeName", "spec.nodeName", ""),
    ("spec.restartPolicy", "spec.restartPolicy", ""),
    ("spec.schedulerName", "spec.schedulerName", ""),
    ("spec.serviceAccountName", "spec.serviceAccountName", ""),
    ("spec.hostNetwork", "spec.hostNetwork", "false"),
    ("status.phase", "status.phase", ""),
    ("status.podIP", "status.podIP", ""),
    ("status.podIPs", "status.podIP", ""),
    ("status.nominatedNodeName", "status.nominatedNodeName", ""),
];

const EVENTS: &[SelectableField] = &[
    ("involvedObject.kind", "involvedObject.kind", ""),
    ("involvedObject.namespace", "involvedObject.namespace", ""),
    ("involvedObject.name", "involvedObject.name", ""),
    ("involvedObject.uid", "involvedObject.uid", ""),
    ("involvedObject.apiVersion", "involvedObject.apiVersion", ""),
    ("involvedObject.resourceVersion", "involvedObject.resourceVersion", ""),
    ("involvedObject.fieldPath", "involvedObject.fieldPath", ""),
    ("reason", "reason", ""),
    ("reportingComponent", "reportingComponent", ""),
    ("source", "source.component", ""),
    ("type", "type", ""),
];

const NEW_EVENTS: &[SelectableField] = &[
    ("regarding.kind", "regarding.kind", ""),
    ("regarding.namespace", "regarding.namespace", ""),
    ("regarding.name", "regarding.name", ""),
    ("regarding.uid", "regarding.uid", ""),
    ("regarding.apiVersion", "regarding.apiVersion", ""),
    ("regarding.resourceVersion", "regarding.resourceVersion", ""),
    ("regarding.fieldPath", "regarding.fieldPath", ""),
    ("reason", "reason", ""),
    ("reportingController", "reportingController", ""),
    ("type", "type", ""),
];

const SIGNER: SelectableField = ("spec.signerName", "spec.signerName", "");

/// The selectable fields of a built-in kind: label, path below the object, and the value that stands for absence.
/// (`source` of events falls back to `reportingComponent`, see [`crate::Hooks::field`].)
#[must_use]
pub fn selectable_fields(group: &str, resource: &str) -> &'static [SelectableField] {
    match (group, resource) {
        ("", "pods") => PODS,
        ("", "nodes") => &[("spec.unschedulable", "spec.unschedulable", "false")],
        ("", "events") => EVENTS,
        ("events.k8s.io", "events") => NEW_EVENTS,
        ("", "secrets") => &[("type", "type", "")],
        ("", "namespaces") => &[("status.phase", "status.phase", ""), ("name", "metadata.name", "")],
        ("", "replicationcontrollers") => &[("status.replicas", "status.replicas", "0")],
        ("", "services") => &[("spec.clusterIP", "spec.clusterIP", ""), ("spec.type", "spec.type", "")],
        ("batch", "jobs") => &[("status.successful", "status.succeeded", "0")],
        ("certificates.k8s.io", "certificatesigningrequests" | "clustertrustbundles") => &[SIGNER],
        ("certificates.k8s.io", "podcertificaterequests") => {
            &[SIGNER, ("spec.podName", "spec.podName", ""), ("spec.nodeName", "spec.nodeName", "")]
        }
        ("resource.k8s.io", "resourceslices") => &[
            ("spec.nodeName", "spec.nodeName", ""),
            ("spec.driver", "spec.driver", ""),
            ("spec.pool.name", "spec.pool.name", ""),
        ],
        _ => &[],
    }
}
