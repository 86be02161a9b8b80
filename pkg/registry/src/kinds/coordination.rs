//! The `coordination.k8s.io` group.

pub(crate) mod lease;
pub(crate) mod leasecandidate;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "leasecandidates" => &leasecandidate::KIND,
        "leases" => &lease::KIND,
        _ => return None,
    })
}
