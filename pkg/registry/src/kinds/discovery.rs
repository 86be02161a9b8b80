//! The `discovery.k8s.io` group.

pub(crate) mod endpointslice;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "endpointslices" => &endpointslice::KIND,
        _ => return None,
    })
}
