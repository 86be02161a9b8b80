//! The built-in admission plugins, in upstream's order.
//!
//! Each plugin looks at one kind or two, reads what it needs from the watch cache and either changes the new object
//! or refuses. The registry runs the chain inside its one write pipeline.

use std::sync::Arc;

use copepod_api::{ApiError, meta};
use copepod_registry::{Admission, AdmissionChain, Attributes, Operation};
use serde_json::{Map, Value};

use crate::authz::Authorizer;
use crate::outbound::Outbound;
use crate::reader::Reader;

mod certificates;
mod default_class;
mod escalation;
mod limit_ranger;
mod limits;
mod mirror_pods;
mod namespace_lifecycle;
mod node_restriction;
mod nodes;
mod policy;
mod priority;
mod resource_quota;
mod runtime_class;
mod service_account;
mod storage;
mod tolerations;
mod webhook;

/// What plugins share.
#[derive(Debug, Clone)]
pub(crate) struct Deps {
    /// Reads objects.
    pub reader: Reader,
    /// Answers questions of permission.
    pub authorizer: Arc<Authorizer>,
    /// Calls webhooks.
    pub outbound: Arc<Outbound>,
}

/// The plugins that run unless disabled, in order; `NodeRestriction` runs when enabled, as upstream's default has it.
pub(crate) const DEFAULT_ON: &[&str] = &[
    "NamespaceLifecycle",
    "LimitRanger",
    "ServiceAccount",
    "TaintNodesByCondition",
    "PodSecurity",
    "Priority",
    "DefaultTolerationSeconds",
    "StorageObjectInUseProtection",
    "RuntimeClass",
    "DefaultStorageClass",
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "ClusterTrustBundleAttest",
    "DefaultIngressClass",
    "PersistentVolumeClaimResize",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
];

/// Known names that are accepted and do nothing yet, or nothing on one node.
pub(crate) const ACCEPTED: &[&str] = &["NodeRestriction", "OwnerReferencesPermissionEnforcement"];

/// The chain of the enabled plugins.
pub(crate) fn chain(deps: &Deps, enabled: impl Fn(&str) -> bool) -> AdmissionChain {
    let d = || deps.clone();
    let all: Vec<Arc<dyn Admission>> = vec![
        Arc::new(namespace_lifecycle::NamespaceLifecycle(d())),
        Arc::new(limit_ranger::LimitRanger(d())),
        Arc::new(service_account::ServiceAccount(d())),
        Arc::new(node_restriction::NodeRestriction(d())),
        Arc::new(nodes::TaintNodesByCondition),
        Arc::new(priority::Priority(d())),
        Arc::new(tolerations::DefaultTolerationSeconds),
        Arc::new(storage::StorageObjectInUseProtection),
        Arc::new(storage::PersistentVolumeClaimResize(d())),
        Arc::new(runtime_class::RuntimeClass(d())),
        Arc::new(default_class::DefaultStorageClass(d())),
        Arc::new(certificates::CertificateApproval(d())),
        Arc::new(certificates::CertificateSigning(d())),
        Arc::new(certificates::CertificateSubjectRestriction),
        Arc::new(default_class::DefaultIngressClass(d())),
        Arc::new(policy::MutatingAdmissionPolicy::new(d())),
        Arc::new(webhook::MutatingAdmissionWebhook::new(&d())),
        Arc::new(policy::ValidatingAdmissionPolicy::new(d())),
        Arc::new(webhook::ValidatingAdmissionWebhook::new(&d())),
    ];
    let mut plugins: Vec<_> = all.into_iter().filter(|p| enabled(p.name())).collect();
    // Not plugins upstream: part of the RBAC storage, and a mirror's read-only spec.
    plugins.push(Arc::new(escalation::Escalation(d())));
    plugins.push(Arc::new(mirror_pods::MirrorPods));
    // Last of all: what is charged here must not be refused by another.
    if enabled("ResourceQuota") {
        plugins.push(Arc::new(resource_quota::ResourceQuota::new(d())));
    }
    AdmissionChain::new(plugins)
}

/// 403 in the form of upstream's `admission.NewForbidden`.
fn forbid(attributes: &Attributes<'_>, object: Option<&Value>, why: impl AsRef<str>) -> ApiError {
    let own = object.map_or("", meta::name);
    let generated =
        object.and_then(|o| o.pointer("/metadata/generateName")).and_then(Value::as_str).unwrap_or_default();
    let name = [own, attributes.name, generated].into_iter().find(|n| !n.is_empty()).unwrap_or("Unknown");
    ApiError::forbidden(&attributes.resource.group_resource(), name, why.as_ref())
}

/// Whether a write is of this resource itself, not of a subresource.
fn is(attributes: &Attributes<'_>, group: &str, resource: &str) -> bool {
    attributes.subresource.is_empty()
        && attributes.resource.group == group
        && attributes.resource.resource == resource
}

/// Whether a write creates this resource.
fn creates(attributes: &Attributes<'_>, group: &str, resource: &str) -> bool {
    attributes.operation == Operation::Create && is(attributes, group, resource)
}

/// Whether a pod mirrors a static pod.
fn is_mirror(pod: &Value) -> bool {
    meta::annotation(pod, "kubernetes.io/config.mirror").is_some()
}

/// The map at `spec`, made when absent.
fn spec_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.as_object_mut().map(|map| meta::child_mut(map, "spec"))
}

/// The items of a list below a map, made when absent.
fn list_mut<'a>(map: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Vec<Value>> {
    let entry = map.entry(key).or_insert_with(|| Value::Array(Vec::new()));
    if entry.is_null() {
        *entry = Value::Array(Vec::new());
    }
    entry.as_array_mut()
}

/// The items of a list, none when absent.
fn items<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + Clone + use<'a> {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default().iter()
}

/// A text field, empty when absent.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
