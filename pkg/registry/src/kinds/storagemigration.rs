//! The `storagemigration.k8s.io` group.

pub(crate) mod storageversionmigration;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "storageversionmigrations" => &storageversionmigration::KIND,
        _ => return None,
    })
}
