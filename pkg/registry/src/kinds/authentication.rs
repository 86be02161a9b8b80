//! The `authentication.k8s.io` group: questions about who asks, which are answered and not stored.

use super::kind::Kind;

/// A question that needs no name.
pub(crate) static REVIEW: Kind = Kind { name: |_| Vec::new(), ..Kind::PLAIN };

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "selfsubjectreviews" | "tokenreviews" => &REVIEW,
        _ => return None,
    })
}
