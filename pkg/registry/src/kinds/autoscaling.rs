//! The `autoscaling` group.

pub(crate) mod horizontalpodautoscaler;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "horizontalpodautoscalers" => &horizontalpodautoscaler::KIND,
        _ => return None,
    })
}
