//! The `policy` group.

pub(crate) mod poddisruptionbudget;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "poddisruptionbudgets" => &poddisruptionbudget::KIND,
        _ => return None,
    })
}
