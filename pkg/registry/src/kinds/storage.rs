//! The `storage.k8s.io` group.

pub(crate) mod csidriver;
pub(crate) mod csinode;
pub(crate) mod csistoragecapacity;
pub(crate) mod storageclass;
pub(crate) mod volumeattachment;
pub(crate) mod volumeattributesclass;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "csidrivers" => &csidriver::KIND,
        "csinodes" => &csinode::KIND,
        "csistoragecapacities" => &csistoragecapacity::KIND,
        "storageclasses" => &storageclass::KIND,
        "volumeattachments" => &volumeattachment::KIND,
        "volumeattributesclasses" => &volumeattributesclass::KIND,
        _ => return None,
    })
}
