//! Rules on a table of objects.

use std::sync::Arc;

use copepod_api::FieldPath;
use copepod_schema::SchemaSet;
use serde_json::{Value, json};

use super::{RuleError, Rules};

fn rules(schema: &Value) -> Rules {
    let set = SchemaSet::from_crd(schema, &FieldPath::new("schema")).unwrap();
    Rules::of(&Arc::new(set)).unwrap()
}

fn schema(rules: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": rules, "properties": {
        "min": {"type": "integer"}, "max": {"type": "integer"}, "name": {"type": "string"}, "at": {"type": "string", "format": "date-time"},
        "any": {"x-kubernetes-int-or-string": true}, "a-b": {"type": "string"},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object",
            "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}}}},
    }}}})
}

fn judge(written: &Value, object: &Value, old: Option<&Value>) -> (Vec<String>, Vec<String>) {
    let found = rules(&schema(written)).validate(object, old);
    (found.errors.iter().map(ToString::to_string).collect(), found.warnings)
}

#[test]
fn broken_rules_are_errors() {
    let written = json!([
        {"rule": "self.min <= self.max", "messageExpression": "string(self.min) + ' is more than ' + string(self.max)", "fieldPath": ".min"},
        {"rule": "!has(self.name) || self.name.startsWith('x')", "message": "must start with x", "reason": "FieldValueForbidden"},
        {"rule": "!has(self.at) || self.at > timestamp('2020-01-01T00:00:00Z')"},
        {"rule": "!has(self.any) || type(self.any) == int"},
        {"rule": "!has(self.a__dash__b) || self.a__dash__b != 'bad'"},
    ]);
    assert_eq!(
        judge(&written, &json!({"spec": {"min": 1, "max": 2, "name": "xy"}}), None).0,
        Vec::<String>::new()
    );
    let object = json!({"spec": {"min": 3, "max": 2, "name": "y", "at": "2019-01-01T00:00:00Z", "any": "s", "a-b": "bad"}});
    assert_eq!(
        judge(&written, &object, None).0,
        [
            "spec.min: Invalid value: 3 is more than 2",
            "spec: Forbidden: must start with x",
            "spec: Invalid value: failed rule: !has(self.at) || self.at > timestamp('2020-01-01T00:00:00Z')",
            "spec: Invalid value: failed rule: !has(self.any) || type(self.any) == int",
            "spec: Invalid value: failed rule: !has(self.a__dash__b) || self.a__dash__b != 'bad'",
        ]
    );
}

#[test]
fn what_was_so_before_is_a_warning_and_transitions_compare() {
    let written = json!([{"rule": "self.min <= self.max"}, {"rule": "self.name == oldSelf.name", "message": "immutable"}]);
    let old = json!({"metadata": {"a": 1}, "spec": {"min": 3, "max": 2, "name": "a", "list": [{"k": "x", "v": 5}]}});
    let mut new = old.clone();
    new["metadata"]["a"] = 2.into();
    let (errors, warnings) = judge(&written, &new, Some(&old));
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(warnings, ["spec: Invalid value: failed rule: self.min <= self.max"]);
    new["spec"]["min"] = 1.into();
    new["spec"]["name"] = "b".into();
    new["spec"]["list"] = json!([{"k": "y", "v": 1}, {"k": "x", "v": 4}]);
    let (errors, _) = judge(&written, &new, Some(&old));
    assert_eq!(
        errors,
        ["spec: Invalid value: immutable", "spec.list[1].v: Invalid value: 4: failed rule: self >= oldSelf",]
    );
}

#[test]
fn rules_that_cannot_be_are_known() {
    let written = json!([{"rule": "self.missing == 1"}, {"rule": "self.min"}, {"rule": "true", "messageExpression": "1"}, {"rule": "true", "optionalOldSelf": true}]);
    let rules = rules(&schema(&written));
    let spec = rules.set.root().unwrap().field("spec").unwrap().schema().id();
    let errors: Vec<Vec<RuleError>> = rules.at(spec).iter().map(super::Rule::errors).collect();
    assert!(matches!(&errors[0][..], [RuleError::Rule(why)] if why.contains("undefined field 'missing'")));
    assert_eq!(errors[1], [RuleError::Rule("cel expression must evaluate to a bool".to_owned())]);
    assert_eq!(errors[2], [RuleError::Message("messageExpression must evaluate to a string".to_owned())]);
    assert_eq!(errors[3], [RuleError::OptionalOldSelf]);
}
