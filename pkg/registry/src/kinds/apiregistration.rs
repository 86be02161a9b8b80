//! The `apiregistration.k8s.io` group.

pub(crate) mod apiservice;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "apiservices" => &apiservice::KIND,
        _ => return None,
    })
}
