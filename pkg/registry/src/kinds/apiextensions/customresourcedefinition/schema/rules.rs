//! `x-kubernetes-validations`: rules in CEL.

use std::sync::Arc;

use copepod_api::FieldError;
use copepod_cel::rules::{RuleError, Rules, valid_path};
use copepod_schema::{SchemaRef, SchemaSet};
use serde_json::Value;

use crate::kinds::at::At;

const FIELD: &str = "x-kubernetes-validations";
const REASONS: &[&str] =
    &["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Whether a schema has rules anywhere.
pub(super) fn given(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.contains_key(FIELD) || map.values().any(given),
        Value::Array(list) => list.iter().any(given),
        _ => false,
    }
}

/// What is wrong with the rules of a node as they are written.
pub(super) fn written(at: &At<'_>) {
    for rule in at.get(FIELD).items() {
        let (condition, message) = (rule.get("rule"), rule.get("message"));
        let (trimmed, said) = (condition.str().trim(), message.str().trim());
        if trimmed.is_empty() {
            condition.required("rule is not specified");
        } else if !message.is_empty() && said.is_empty() {
            message.invalid("must be non-empty if specified");
        } else if lines(said) {
            message.invalid("must not contain line breaks");
        } else if lines(trimmed) && said.is_empty() {
            message.required("message must be specified if rule contains line breaks");
        }
        let composed = rule.get("messageExpression");
        if !composed.is_empty() && composed.str().trim().is_empty() {
            composed.required("messageExpression must be non-empty if specified");
        }
        rule.get("reason").one_of(REASONS);
        let path = rule.get("fieldPath");
        if !path.is_empty() && path.str().trim().is_empty() {
            path.invalid("must be non-empty if specified");
        }
        if lines(path.str()) {
            path.invalid("must not contain line breaks");
        }
    }
}

fn lines(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// Compiles the rules of a schema.
pub(super) fn check(at: &At<'_>, set: &Arc<SchemaSet>) {
    if let (Some(rules), Some(root)) = (Rules::of(set), set.root()) {
        node(at, root, &rules, None);
    }
}

/// `uncorrelated`: the list or map above whose parts cannot be found again in the object before.
fn node(at: &At<'_>, schema: SchemaRef<'_>, rules: &Rules, uncorrelated: Option<&str>) {
    for (rule, compiled) in at.get(FIELD).items().zip(rules.at(schema.id()).iter()) {
        for error in compiled.errors() {
            match error {
                RuleError::Rule(why) => refuse(&rule, "rule", why.as_str()),
                RuleError::Message(why) => refuse(&rule, "messageExpression", why.as_str()),
                RuleError::OptionalOldSelf => {
                    rule.get("optionalOldSelf").invalid("may not be set if oldSelf is not used in rule");
                }
            }
        }
        if let Some(above) = uncorrelated.filter(|_| compiled.uses_old()) {
            rule.get("rule").invalid(format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {above}"
            ));
        }
    }
    let own = at.path().to_string();
    children(at, schema, |child, schema, item| {
        // Items of lists without keys have no identity.
        let lost = item && !at.is("x-kubernetes-list-type", "map");
        node(child, schema, rules, uncorrelated.or_else(|| lost.then_some(own.as_str())));
    });
}

/// Runs `visit` on everything below a node that rules may be about; told whether it is the items of a list.
fn children<'s>(at: &At<'_>, schema: SchemaRef<'s>, mut visit: impl FnMut(&At<'_>, SchemaRef<'s>, bool)) {
    for (name, child) in at.get("properties").entries() {
        if let Some(field) = schema.field(name).filter(|field| !field.schema().is_typed()) {
            visit(&child, field.schema(), false);
        }
    }
    if let Some(items) = schema.items().filter(|_| at.get("items").present()) {
        visit(&at.get("items"), items, true);
    }
    if let Some(values) = schema.additional().filter(|_| at.get("additionalProperties").map().is_some()) {
        visit(&at.get("additionalProperties"), values, false);
    }
}

/// The paths that rules report at must exist.
pub(super) fn paths(at: &At<'_>, schema: SchemaRef<'_>) {
    for rule in at.get(FIELD).items() {
        let path = rule.get("fieldPath");
        if !path.str().trim().is_empty() && !lines(path.str()) && valid_path(path.str(), schema).is_err() {
            path.invalid("must be a valid path");
        }
    }
    children(at, schema, |child, schema, _| paths(child, schema));
}

/// What is wrong with a part of a rule; all of the rule is shown, as upstream shows it.
fn refuse(rule: &At<'_>, part: &str, why: impl Into<String>) {
    let text = |field: &str| Value::from(rule.get(field).str());
    let given = |field: &str| rule.get(field).value().cloned().unwrap_or_default();
    let shown = format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        text("rule"),
        text("message"),
        text("messageExpression"),
        given("reason"),
        text("fieldPath"),
        given("optionalOldSelf"),
    );
    rule.push(FieldError::invalid(rule.get(part).path(), Value::Null, why).showing(shown));
}
