//! The `resource.k8s.io` group.

mod checks;
pub(crate) mod deviceclass;
pub(crate) mod devicetaintrule;
pub(crate) mod resourceclaim;
pub(crate) mod resourceslice;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "deviceclasses" => &deviceclass::KIND,
        "devicetaintrules" => &devicetaintrule::KIND,
        "resourceclaims" => &resourceclaim::CLAIM,
        "resourceclaimtemplates" => &resourceclaim::TEMPLATE,
        "resourceslices" => &resourceslice::KIND,
        _ => return None,
    })
}
