//! Storage classes.

use copepod_api::{FieldError, names};

use crate::kinds::at::At;
use crate::kinds::checks::labels;
use crate::kinds::checks::warn;
use crate::kinds::defaults::{Lit::S, Rule::Nil};
use crate::kinds::kind::Kind;

/// Storage classes.
pub(crate) static KIND: Kind = Kind {
    defaults: &[Nil("reclaimPolicy", S("Delete")), Nil("volumeBindingMode", S("Immediate"))],
    validate,
    validate_update: Some(|new, old| {
        for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            new.get(field).fixed(&old.get(field));
        }
        if new.errors() == 0 {
            validate(new);
        }
    }),
    warnings: |new, _| {
        warn::about(new, copepod_api::FieldPath::root(), |class, warnings| {
            let terms = class.get("allowedTopologies").items();
            for key in terms.flat_map(|t| t.get("matchLabelExpressions").items()).map(|e| e.get("key")) {
                if let Some(text) = warn::old_label(key.str()) {
                    warnings.push(format!("{}: {text}", key.path()));
                }
            }
        })
    },
    ..Kind::PLAIN
};

fn validate(class: &At<'_>) {
    let provisioner = class.get("provisioner");
    if provisioner.need() {
        let lower = provisioner.str().to_lowercase();
        names::qualified_name(&lower)
            .into_iter()
            .for_each(|error| provisioner.invalid_as(lower.as_str(), error));
    }
    parameters(&class.get("parameters"), true);
    class.get("reclaimPolicy").one_of(&["Delete", "Retain"]);
    class.get("volumeBindingMode").need_one_of(&["Immediate", "WaitForFirstConsumer"]);
    for term in class.get("allowedTopologies").items() {
        let expressions = term.get("matchLabelExpressions");
        for at in expressions.items() {
            labels::key(&at.get("key"));
            let values = at.get("values");
            values.need();
            values.items().for_each(|value| value.invalid_all(names::label_value(value.str())));
        }
    }
}

/// Parameters of a provisioner or driver.
pub(crate) fn parameters(at: &At<'_>, may_be_empty: bool) {
    const MAX_SIZE: usize = 256 * 1024;
    let mut size = 0;
    for (key, value) in at.entries() {
        if key.is_empty() {
            at.invalid_as(key, "field can not be empty.");
        }
        size += key.len() + value.str().len();
    }
    if at.map().is_some_and(|map| map.len() > 512) {
        at.push(FieldError::too_long(at.path(), 512));
    }
    if size > MAX_SIZE {
        at.push(FieldError::too_long(at.path(), MAX_SIZE));
    }
    if !may_be_empty {
        at.need_because("must contain at least one key/value pair");
    }
}
