//! Bindings of admission policies.

use copepod_api::names;

use super::admissionpolicy::{MATCH, mutable, reference};
use super::rules;
use crate::kinds::at::At;
use crate::kinds::defaults::Rule::In;
use crate::kinds::kind::Kind;

const BINDING: Kind = Kind {
    defaults: &[In(&["spec"], &[In(&["matchResources"], MATCH)])],
    generation: true,
    unconditional_update: false,
    ..Kind::PLAIN
};

/// Bindings of validating policies.
pub(crate) static VALIDATING: Kind = Kind {
    validate: |binding| {
        common(&binding.get("spec"));
        actions(&binding.at("spec.validationActions"));
    },
    ..BINDING
};

/// Bindings of mutating policies.
pub(crate) static MUTATING: Kind = Kind {
    validate: |binding| {
        common(&binding.get("spec"));
        mutable(&binding.at("spec.matchResources"));
    },
    ..BINDING
};

fn common(spec: &At<'_>) {
    let policy = spec.get("policyName");
    if policy.need() {
        policy.text(names::dns1123_subdomain);
    }
    reference(&spec.get("paramRef"));
    rules::matching(&spec.get("matchResources"));
}

fn actions(list: &At<'_>) {
    if !list.need() {
        return;
    }
    let mut seen = Vec::new();
    for at in list.items() {
        at.one_of(&["Audit", "Deny", "Warn"]);
        if seen.contains(&at.str()) {
            at.duplicate();
        }
        seen.push(at.str());
    }
    if seen.contains(&"Deny") && seen.contains(&"Warn") {
        list.invalid("must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)");
    }
}
