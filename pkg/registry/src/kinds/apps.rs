//! The `apps` group.

pub(crate) mod controllerrevision;
pub(crate) mod daemonset;
pub(crate) mod deployment;
pub(crate) mod replicaset;
pub(crate) mod statefulset;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "controllerrevisions" => &controllerrevision::KIND,
        "daemonsets" => &daemonset::KIND,
        "deployments" => &deployment::KIND,
        "replicasets" => &replicaset::KIND,
        "statefulsets" => &statefulset::KIND,
        _ => return None,
    })
}
