//! Configurations of admission webhooks.

use std::collections::HashSet;

use super::rules;
use crate::kinds::at::At;
use crate::kinds::checks::labels;
use crate::kinds::defaults::{
    Lit::{I, Map, S},
    Rule::{self, Each, In, Nil},
};
use crate::kinds::kind::{Kind, body_differs};

const WEBHOOK: &[Rule] = &[
    Nil("failurePolicy", S("Fail")),
    Nil("matchPolicy", S("Equivalent")),
    Nil("namespaceSelector", Map),
    Nil("objectSelector", Map),
    Nil("timeoutSeconds", I(10)),
    Each(&["rules"], &[Nil("scope", S("*"))]),
    In(&["clientConfig"], &[In(&["service"], &[Nil("port", I(443))])]),
];

/// Validating webhooks.
pub(crate) static VALIDATING: Kind = Kind {
    defaults: &[Each(&["webhooks"], WEBHOOK)],
    generation: true,
    counts: body_differs,
    unconditional_update: false,
    validate: |new| validate(new, false),
    validate_update: Some(|new, old| validate(new, unchanged(new, old))),
    ..Kind::PLAIN
};

/// Mutating webhooks.
pub(crate) static MUTATING: Kind = Kind {
    defaults: &[Each(&["webhooks"], WEBHOOK), Each(&["webhooks"], &[Nil("reinvocationPolicy", S("Never"))])],
    generation: true,
    counts: body_differs,
    unconditional_update: false,
    validate: |new| validate(new, false),
    validate_update: Some(|new, old| validate(new, unchanged(new, old))),
    ..Kind::PLAIN
};

/// Whether all match conditions are as they were: they are not judged again then.
fn unchanged(new: &At<'_>, old: &At<'_>) -> bool {
    let (new, old) = (new.get("webhooks"), old.get("webhooks"));
    let of = |at: &At<'_>| -> Vec<_> {
        at.array().iter().map(|hook| hook.get("matchConditions").cloned()).collect()
    };
    of(&new) == of(&old)
}

fn validate(configuration: &At<'_>, unchanged: bool) {
    let mut seen = HashSet::new();
    for at in configuration.get("webhooks").items() {
        let name = at.get("name");
        rules::hook_name(&name);
        at.get("rules").items().for_each(|rule| rules::rule(&rule));
        at.get("failurePolicy").one_of(&["Fail", "Ignore"]);
        at.get("matchPolicy").one_of(&["Equivalent", "Exact"]);
        let effects = at.get("sideEffects");
        if !effects.present() {
            effects.required("must specify one of None, NoneOnDryRun");
        }
        effects.one_of(&["None", "NoneOnDryRun"]);
        let timeout = at.get("timeoutSeconds");
        if timeout.int().is_some_and(|n| !(1..=30).contains(&n)) {
            timeout.invalid("the timeout value must be between 1 and 30 seconds");
        }
        labels::selector(&at.get("namespaceSelector"));
        labels::selector(&at.get("objectSelector"));
        at.get("reinvocationPolicy").one_of(&["IfNeeded", "Never"]);
        rules::client(&at.get("clientConfig"));
        let before = unchanged.then(|| at.get("matchConditions"));
        rules::conditions(&at.get("matchConditions"), before.as_ref(), false);
        rules::review_versions(&at.get("admissionReviewVersions"));
        if !name.is_empty() && !seen.insert(name.str()) {
            name.duplicate();
        }
    }
}
