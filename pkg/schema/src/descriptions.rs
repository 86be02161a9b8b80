//! What types and fields are for, in the words of the Kubernetes API: for `kubectl explain`.
//!
//! The texts are no part of this source tree; a build with the feature `descriptions` takes them from the
//! k8s-openapi crate. Without it there are none.

/// The description of a definition, or of one of its fields.
#[must_use]
pub fn get(model: &str, field: &str) -> Option<&'static str> {
    let _ = (model, field);
    None
}
