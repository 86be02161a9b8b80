//! Selectors of nodes, taints and tolerations.

use copepod_api::names;

use super::labels;
use crate::kinds::at::At;

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// A node selector: at least one term.
pub(crate) fn node_selector(at: &At<'_>) {
    let terms = at.get("nodeSelectorTerms");
    if terms.is_empty() {
        return terms.required("must have at least one node selector term");
    }
    terms.items().for_each(|term| node_term(&term, true));
}

/// One term of a node selector; preferences do not check label values.
pub(crate) fn node_term(term: &At<'_>, check_values: bool) {
    for requirement in term.get("matchExpressions").items() {
        expression(&requirement, check_values);
    }
    for requirement in term.get("matchFields").items() {
        field(&requirement);
    }
}

fn expression(at: &At<'_>, check_values: bool) {
    let values = at.get("values");
    match at.get("operator").str() {
        "In" | "NotIn" => {
            if values.is_empty() {
                values.required("must be specified when `operator` is 'In' or 'NotIn'");
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
        }
        "Gt" | "Lt" => {
            if values.array().len() != 1 {
                values.required("must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
        }
        _ => at.get("operator").invalid("not a valid selector operator"),
    }
    labels::key(&at.get("key"));
    if check_values {
        values.items().for_each(|value| value.invalid_all(names::label_value(value.str())));
    }
}

fn field(at: &At<'_>) {
    let values = at.get("values");
    match at.get("operator").str() {
        "In" | "NotIn" => {
            if values.array().len() != 1 {
                values.required(
                    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
                );
            }
        }
        _ => at.get("operator").invalid("not a valid selector operator"),
    }
    if at.is("key", "metadata.name") {
        values.items().for_each(|value| value.text(names::dns1123_subdomain));
    } else {
        at.get("key").invalid("not a valid field selector key");
    }
}

/// The effect of a taint.
pub(crate) fn effect(at: &At<'_>, may_be_empty: bool) {
    if at.str().is_empty() && !may_be_empty {
        at.required("");
    } else if !EFFECTS.contains(&at.str()) {
        at.not_supported(EFFECTS);
    }
}

/// Tolerations of a pod or runtime class.
pub(crate) fn tolerations(list: &At<'_>) {
    for at in list.items() {
        let (key, operator, value) = (at.get("key"), at.get("operator"), at.get("value"));
        if !key.is_empty() {
            labels::key(&key);
        }
        if key.is_empty() && operator.str() != "Exists" {
            operator.invalid(
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
        if at.get("tolerationSeconds").present() && !at.is("effect", "NoExecute") {
            at.get("effect").invalid("effect must be 'NoExecute' when `tolerationSeconds` is set");
        }
        match operator.str() {
            "" | "Equal" => {
                let texts = names::label_value(value.str());
                if !texts.is_empty() {
                    operator.invalid_as(value.str(), texts.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    operator.invalid_as(value.str(), "value must be empty when `operator` is 'Exists'");
                }
            }
            "Lt" | "Gt" => operator.not_supported(&["Equal", "Exists", "Lt", "Gt"]),
            _ => operator.not_supported(&["Equal", "Exists"]),
        }
        if !at.get("effect").is_empty() {
            effect(&at.get("effect"), true);
        }
    }
}
