//! The `scheduling.k8s.io` group.

pub(crate) mod priorityclass;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "priorityclasses" => &priorityclass::KIND,
        _ => return None,
    })
}
