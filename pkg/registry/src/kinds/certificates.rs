//! The `certificates.k8s.io` group.

pub(crate) mod certificatesigningrequest;
pub(crate) mod clustertrustbundle;
pub(crate) mod podcertificaterequest;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "certificatesigningrequests" => &certificatesigningrequest::KIND,
        "clustertrustbundles" => &clustertrustbundle::KIND,
        "podcertificaterequests" => &podcertificaterequest::KIND,
        _ => return None,
    })
}
