//! Labels, annotations and label selectors.

use copepod_api::names;

use crate::kinds::at::At;

/// The key of a label.
pub(crate) fn key(at: &At<'_>) {
    at.invalid_all(names::qualified_name(at.str()));
}

/// A map of labels.
pub(crate) fn labels(at: &At<'_>) {
    for (key, value) in at.entries() {
        for text in names::qualified_name(key) {
            at.invalid_as(key, text);
        }
        for text in names::label_value(value.str()) {
            at.invalid_as(value.str(), text);
        }
    }
}

/// A map of annotations.
pub(crate) fn annotations(at: &At<'_>) {
    const LIMIT: usize = 256 * 1024;
    let mut size = 0;
    for (key, value) in at.entries() {
        size += key.len() + value.str().len();
        for text in names::qualified_name(&key.to_lowercase()) {
            at.invalid_as(key, text);
        }
    }
    if size > LIMIT {
        at.push(copepod_api::FieldError::too_long(at.path(), LIMIT));
    }
}

/// A label selector object.
pub(crate) fn selector(at: &At<'_>) {
    labels(&at.get("matchLabels"));
    for term in at.get("matchExpressions").items() {
        let values = term.get("values");
        match term.get("operator").str() {
            "In" | "NotIn" if values.is_empty() => {
                values.required("must be specified when `operator` is 'In' or 'NotIn'");
            }
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "Exists" | "DoesNotExist" => {}
            _ => term.get("operator").invalid("not a valid selector operator"),
        }
        key(&term.get("key"));
        for value in values.items() {
            value.invalid_all(names::label_value(value.str()));
        }
    }
}

/// Whether a selector object selects everything.
pub(crate) fn selects_all(at: &At<'_>) -> bool {
    at.get("matchLabels").is_empty() && at.get("matchExpressions").is_empty()
}
