//! The `batch` group.

pub(crate) mod cronjob;
pub(crate) mod job;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "cronjobs" => &cronjob::KIND,
        "jobs" => &job::KIND,
        _ => return None,
    })
}
