//! The `flowcontrol.apiserver.k8s.io` group.

pub(crate) mod flowschema;
pub(crate) mod prioritylevelconfiguration;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "flowschemas" => &flowschema::KIND,
        "prioritylevelconfigurations" => &prioritylevelconfiguration::KIND,
        _ => return None,
    })
}
