//! The `events.k8s.io` group: another form of the core group's events.

pub(crate) mod event;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "events" => &event::KIND,
        _ => return None,
    })
}
