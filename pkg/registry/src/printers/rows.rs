//! Which kind is printed by what, and how a line of columns reads.

use jiff::Timestamp;
use serde_json::Value;

use super::{Column, cluster, custom, network, pod, policy, storage, workload};

/// What cells may depend on beside their object.
#[derive(Debug)]
pub(super) struct Context<'a> {
    /// The time ages are counted from.
    pub(super) now: Timestamp,
    /// All objects of the table.
    pub(super) objects: &'a [&'a Value],
}

/// How a kind is printed.
#[derive(Debug)]
pub(super) struct Printer {
    /// The columns, see [`columns`].
    pub(super) columns: &'static str,
    /// The cells of an object.
    pub(super) cells: fn(&Context<'_>, &Value) -> Vec<Value>,
    /// Conditions of the row.
    pub(super) conditions: fn(&Value) -> Vec<Value>,
    /// The order of the rows, as indices.
    pub(super) order: fn(&[&Value]) -> Vec<usize>,
}

impl Printer {
    /// A printer of columns and cells.
    pub(super) const fn new(columns: &'static str, cells: fn(&Context<'_>, &Value) -> Vec<Value>) -> Self {
        Self { columns, cells, conditions: |_| Vec::new(), order: |objects| (0..objects.len()).collect() }
    }
}

/// Reads a line of columns: names separated by `|`; `*` after a name makes it wide-only, `:integer`, `:boolean` or
/// `:date` give a type other than string. `:key` marks a string as a name, which the column `Name` is of itself, and
/// `:plain` takes that away.
pub(super) fn columns(line: &str) -> Vec<Column> {
    line.split('|')
        .map(|word| {
            let (word, priority) = word.strip_suffix('*').map_or((word, 0), |w| (w, 1));
            let (name, type_) =
                word.split_once(':').unwrap_or((word, if word == "Name" { "key" } else { "plain" }));
            Column {
                name: name.to_owned(),
                type_: if matches!(type_, "key" | "plain") { "string" } else { type_ }.to_owned(),
                format: if type_ == "key" { "name" } else { "" }.to_owned(),
                description: describe(name).to_owned(),
                priority,
            }
        })
        .collect()
}

fn describe(name: &str) -> &'static str {
    match name {
        "Name" => "The name, unique within the namespace",
        "Age" | "Created At" => "When the object was created",
        "Ready" => "What is ready of what is wanted",
        "Status" => "The state in one word",
        "Containers" => "Names of the containers",
        "Images" => "Images of the containers",
        "Selector" => "The labels selected",
        "Restarts" => "How often containers were restarted, and when last",
        _ => "",
    }
}

/// The printer of a built-in kind.
pub(super) fn printer(group: &str, resource: &str) -> Option<&'static Printer> {
    Some(match (group, resource) {
        ("", "pods") => &pod::PODS,
        ("", "podtemplates") => &pod::TEMPLATES,
        ("", "replicationcontrollers") => &workload::CONTROLLERS,
        ("apps", "replicasets") => &workload::REPLICA_SETS,
        ("apps", "deployments") => &workload::DEPLOYMENTS,
        ("apps", "statefulsets") => &workload::STATEFUL_SETS,
        ("apps", "daemonsets") => &workload::DAEMON_SETS,
        ("apps", "controllerrevisions") => &workload::REVISIONS,
        ("batch", "jobs") => &workload::JOBS,
        ("batch", "cronjobs") => &workload::CRON_JOBS,
        ("autoscaling", "horizontalpodautoscalers") => &super::scale::AUTOSCALERS,
        ("", "services") => &network::SERVICES,
        ("", "endpoints") => &network::ENDPOINTS,
        ("discovery.k8s.io", "endpointslices") => &network::SLICES,
        ("networking.k8s.io", "ingresses") => &network::INGRESSES,
        ("networking.k8s.io", "ingressclasses") => &network::INGRESS_CLASSES,
        ("networking.k8s.io", "networkpolicies") => &network::POLICIES,
        ("networking.k8s.io", "servicecidrs") => &network::CIDRS,
        ("networking.k8s.io", "ipaddresses") => &network::ADDRESSES,
        _ => return cluster_printer(group, resource),
    })
}

fn cluster_printer(group: &str, resource: &str) -> Option<&'static Printer> {
    Some(match (group, resource) {
        ("", "nodes") => &cluster::NODES,
        ("" | "events.k8s.io", "events") => &cluster::EVENTS,
        ("", "namespaces") => &cluster::NAMESPACES,
        ("", "secrets") => &cluster::SECRETS,
        ("", "configmaps") => &cluster::CONFIG_MAPS,
        ("", "serviceaccounts") => &cluster::NAME_AND_AGE,
        ("", "componentstatuses") => &cluster::COMPONENTS,
        ("", "resourcequotas") => &cluster::QUOTAS,
        ("coordination.k8s.io", "leases") => &cluster::LEASES,
        ("coordination.k8s.io", "leasecandidates") => &cluster::CANDIDATES,
        ("scheduling.k8s.io", "priorityclasses") => &cluster::PRIORITIES,
        ("node.k8s.io", "runtimeclasses") => &cluster::RUNTIMES,
        ("apiextensions.k8s.io", "customresourcedefinitions") => &custom::DEFINITIONS,
        ("apiregistration.k8s.io", "apiservices") => &cluster::API_SERVICES,
        ("storagemigration.k8s.io", "storageversionmigrations") => &cluster::MIGRATIONS,
        ("", "persistentvolumes") => &storage::VOLUMES,
        ("", "persistentvolumeclaims") => &storage::CLAIMS,
        ("storage.k8s.io", "storageclasses") => &storage::CLASSES,
        ("storage.k8s.io", "volumeattributesclasses") => &storage::ATTRIBUTES,
        ("storage.k8s.io", "volumeattachments") => &storage::ATTACHMENTS,
        ("storage.k8s.io", "csinodes") => &storage::CSI_NODES,
        ("storage.k8s.io", "csidrivers") => &storage::CSI_DRIVERS,
        ("resource.k8s.io", "deviceclasses" | "resourceclaimtemplates") => &cluster::NAME_AND_AGE,
        ("resource.k8s.io", "resourceclaims") => &storage::RESOURCE_CLAIMS,
        ("resource.k8s.io", "resourceslices") => &storage::RESOURCE_SLICES,
        ("resource.k8s.io", "devicetaintrules") => &storage::DEVICE_TAINTS,
        _ => return policy_printer(group, resource),
    })
}

fn policy_printer(group: &str, resource: &str) -> Option<&'static Printer> {
    Some(match (group, resource) {
        ("policy", "poddisruptionbudgets") => &policy::BUDGETS,
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => &policy::BINDINGS,
        ("certificates.k8s.io", "certificatesigningrequests") => &policy::SIGNING_REQUESTS,
        ("certificates.k8s.io", "clustertrustbundles") => &policy::TRUST_BUNDLES,
        ("certificates.k8s.io", "podcertificaterequests") => &policy::POD_CERTIFICATES,
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
        ) => &policy::WEBHOOKS,
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => &policy::VALIDATING,
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies") => &policy::MUTATING,
        (
            "admissionregistration.k8s.io",
            "validatingadmissionpolicybindings" | "mutatingadmissionpolicybindings",
        ) => &policy::POLICY_BINDINGS,
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => &policy::FLOW_SCHEMAS,
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => &policy::PRIORITY_LEVELS,
        _ => return None,
    })
}
