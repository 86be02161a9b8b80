//! The `node.k8s.io` group.

pub(crate) mod runtimeclass;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "runtimeclasses" => &runtimeclass::KIND,
        _ => return None,
    })
}
