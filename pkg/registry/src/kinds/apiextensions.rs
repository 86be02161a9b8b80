//! The `apiextensions.k8s.io` group.

pub(crate) mod customresourcedefinition;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "customresourcedefinitions" => &customresourcedefinition::KIND,
        _ => return None,
    })
}
