//! What controllers of pods have in common.

use copepod_api::{FieldError, LabelSelector};
use serde_json::{Map, Value};

use super::{labels, text};
use crate::kinds::at::At;
use crate::kinds::pod::validate;

/// A selector object and the template it must select. `kind` names the controller in texts.
pub(crate) fn selected_template(spec: &At<'_>, kind: &str, empty: &str) {
    let selector = spec.get("selector");
    if selector.present() {
        labels::selector(&selector);
        if labels::selects_all(&selector) {
            selector.invalid(empty.to_owned());
        }
    } else {
        selector.required("");
    }
    match LabelSelector::from_object(selector.value()) {
        Err(_) => selector.invalid("invalid label selector"),
        Ok(parsed) => {
            selects(&parsed, &spec.get("template"));
            validate::template(&spec.get("template"));
            always_restarted(&spec.get("template"), kind);
        }
    }
}

/// The template must carry the labels that `selector` wants. A selector without terms is not asked.
pub(crate) fn selects(selector: &LabelSelector, template: &At<'_>) {
    let none = Map::new();
    let labels = template.at("metadata.labels");
    if !selector.is_empty() && !selector.matches(labels.map().unwrap_or(&none)) {
        let shown = labels.value().cloned().unwrap_or(Value::Null);
        labels.invalid_as(shown, "`selector` does not match template `labels`");
    }
}

/// Pods of a controller run for ever.
pub(crate) fn always_restarted(template: &At<'_>, kind: &str) {
    let spec = template.get("spec");
    if !spec.is("restartPolicy", "Always") {
        spec.get("restartPolicy").not_supported(&["Always"]);
    }
    if spec.get("activeDeadlineSeconds").present() {
        spec.get("activeDeadlineSeconds")
            .forbidden(format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

/// A number that is not negative, or a percentage.
pub(crate) fn int_or_percent(at: &At<'_>) {
    match at.value() {
        Some(Value::String(given)) if !text::is_percent(given) => at.invalid(
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
        ),
        Some(Value::String(_)) | None => {}
        Some(_) => at.not_negative(),
    }
}

/// The number, or the number before `%`.
pub(crate) fn number(at: &At<'_>) -> i64 {
    match at.value() {
        Some(Value::String(text)) => text.trim_end_matches('%').parse().unwrap_or(0),
        _ => at.int().unwrap_or(0),
    }
}

/// At most all of them.
pub(crate) fn at_most_all(at: &At<'_>) {
    if at.str().ends_with('%') && number(at) > 100 {
        at.invalid("must not be greater than 100%");
    }
}

/// Counts in a status: none negative, and those of `parts` not above `replicas`.
pub(crate) fn counts(status: &At<'_>, fields: &[&str], parts: &[&str]) {
    for field in fields.iter().chain(parts) {
        status.get(field).not_negative();
    }
    let count = |field: &str| status.get(field).int().unwrap_or(0);
    for part in parts.iter().filter(|part| count(part) > count("replicas")) {
        status.get(part).invalid("cannot be greater than status.replicas");
    }
    if parts.contains(&"availableReplicas") && count("availableReplicas") > count("readyReplicas") {
        status.get("availableReplicas").invalid("cannot be greater than readyReplicas");
    }
}

/// A counter of collisions only rises.
pub(crate) fn collisions(status: &At<'_>, old: &At<'_>) {
    let (now, was) = (status.get("collisionCount"), old.get("collisionCount"));
    if now.int().unwrap_or(0) < was.int().unwrap_or(0) {
        now.push(FieldError::invalid(now.path(), now.int().unwrap_or(0), "cannot be decremented"));
    }
}
