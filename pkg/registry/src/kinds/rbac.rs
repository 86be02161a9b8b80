//! The `rbac.authorization.k8s.io` group.

pub(crate) mod role;
pub(crate) mod rolebinding;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "clusterrolebindings" => &rolebinding::CLUSTER_ROLE_BINDING,
        "clusterroles" => &role::CLUSTER_ROLE,
        "rolebindings" => &rolebinding::ROLE_BINDING,
        "roles" => &role::ROLE,
        _ => return None,
    })
}
