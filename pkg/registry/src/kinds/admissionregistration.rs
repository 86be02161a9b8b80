//! The `admissionregistration.k8s.io` group.

pub(crate) mod admissionpolicy;
mod expressions;
pub(crate) mod policybinding;
pub(crate) mod rules;
pub(crate) mod webhookconfiguration;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "mutatingadmissionpolicies" => &admissionpolicy::MUTATING,
        "mutatingadmissionpolicybindings" => &policybinding::MUTATING,
        "mutatingwebhookconfigurations" => &webhookconfiguration::MUTATING,
        "validatingadmissionpolicies" => &admissionpolicy::VALIDATING,
        "validatingadmissionpolicybindings" => &policybinding::VALIDATING,
        "validatingwebhookconfigurations" => &webhookconfiguration::VALIDATING,
        _ => return None,
    })
}
