//! What a job makes of failed and succeeded pods.

use std::collections::HashSet;

use copepod_api::FieldError;

use crate::kinds::at::At;
use crate::kinds::checks::labels;

fn quoted(values: &[&str]) -> String {
    let values: Vec<String> = values.iter().map(|v| format!("{v:?}")).collect();
    format!("valid values: [{}]", values.join(" "))
}

/// Wants one of `values`; absence lists them.
fn choice(at: &At<'_>, values: &[&str]) {
    if at.is_empty() {
        at.required(&quoted(values));
    } else {
        at.one_of(values);
    }
}

/// `podFailurePolicy`.
pub(crate) fn failure(spec: &At<'_>) {
    let rules = spec.at("podFailurePolicy.rules");
    if rules.array().len() > 20 {
        rules.push(FieldError::too_many(rules.path(), rules.array().len(), 20));
    }
    for rule in rules.items() {
        let action = rule.get("action");
        if action.str() == "FailIndex" {
            if !spec.get("backoffLimitPerIndex").present() {
                action.invalid("requires the backoffLimitPerIndex to be set");
            }
        } else {
            choice(&action, &["Count", "FailIndex", "FailJob", "Ignore"]);
        }
        let (codes, conditions) = (rule.get("onExitCodes"), rule.get("onPodConditions"));
        if codes.present() {
            exit_codes(&codes, spec);
        }
        for pattern in conditions.items() {
            labels::key(&pattern.get("type"));
            choice(&pattern.get("status"), &["False", "True", "Unknown"]);
        }
        match (codes.present(), !conditions.is_empty()) {
            (true, true) => {
                rule.invalid_hidden("specifying both OnExitCodes and OnPodConditions is not supported");
            }
            (false, false) => {
                rule.invalid_hidden("specifying one of OnExitCodes and OnPodConditions is required")
            }
            _ => {}
        }
    }
}

fn exit_codes(at: &At<'_>, spec: &At<'_>) {
    let operator = at.get("operator");
    choice(&operator, &["In", "NotIn"]);
    let name = at.get("containerName");
    let lists = ["containers", "initContainers"];
    let mut known = lists.iter().flat_map(|l| spec.at("template.spec").get(l).items());
    if name.present() && !known.any(|c| c.is("name", name.str())) {
        name.invalid("must be one of the container or initContainer names in the pod template");
    }
    let values = at.get("values");
    if values.is_empty() {
        let shown = values.value().cloned().unwrap_or_default();
        values.invalid_as(shown, "at least one value is required");
    }
    let (mut seen, mut last, mut ordered) = (HashSet::new(), i64::MIN, true);
    for value in values.items() {
        let number = value.int().unwrap_or(0);
        if operator.str() == "In" && number == 0 {
            value.invalid("must not be 0 for the In operator");
        }
        if !seen.insert(number) {
            value.duplicate();
        }
        ordered &= number >= last;
        last = number;
    }
    if !ordered {
        values.invalid("must be ordered");
    }
}

/// `successPolicy`.
pub(crate) fn success(spec: &At<'_>) {
    let at = spec.get("successPolicy");
    if !at.present() {
        return;
    }
    if !spec.is("completionMode", "Indexed") {
        return at.invalid("requires indexed completion mode");
    }
    let rules = at.get("rules");
    rules.need_because("at least one rules must be specified when the successPolicy is specified");
    if rules.array().len() > 20 {
        rules.push(FieldError::too_many(rules.path(), rules.array().len(), 20));
    }
    let completions = spec.get("completions").int().unwrap_or(0);
    for rule in rules.items() {
        let (count, indexes) = (rule.get("succeededCount"), rule.get("succeededIndexes"));
        if !count.present() && !indexes.present() {
            rule.required("at least one of succeededCount or succeededIndexes must be specified");
        }
        count.not_negative();
        if count.int().is_some_and(|n| n > completions) {
            count.invalid(format!(
                "must be less than or equal to {completions} (the number of specified completions)"
            ));
        }
    }
}
