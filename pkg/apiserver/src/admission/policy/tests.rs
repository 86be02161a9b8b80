//! What policies say and do, on tables.

use copepod_api::Reason;
use copepod_cel::admission::Input;
use serde_json::{Value, json};

use super::{
    mutator::Mutator,
    validator::{Denial, Validator, Verdict},
};

fn input<'a>(object: &'a Value, request: &'a Value, params: Option<&'a Value>) -> Input<'a> {
    Input { object: Some(object), old_object: None, request, params, namespace: None, authorizer: None }
}

fn verdict(spec: &Value, object: &Value) -> Verdict {
    let (request, params) = (json!({"operation": "CREATE", "name": "x"}), json!({"max": 3}));
    Validator::compile(spec).validate(&input(object, &request, Some(&params)))
}

fn messages(verdict: &Verdict) -> Vec<&str> {
    verdict.denials.iter().map(|denial| denial.message.as_str()).collect()
}

#[test]
fn validations_give_messages_and_reasons() {
    let spec = json!({
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "variables": [{"name": "n", "expression": "object.spec.replicas"}, {"name": "twice", "expression": "variables.n * 2"}],
        "validations": [
            {"expression": "variables.n > 1", "messageExpression": "'wants more than 1, has ' + string(variables.n)"},
            {"expression": "variables.n > 1", "message": "plain", "reason": "Forbidden"},
            {"expression": "variables.twice > 5"},
            {"expression": "variables.n <= params.max"},
        ],
    });
    let found = verdict(&spec, &json!({"spec": {"replicas": 1}}));
    assert_eq!(
        messages(&found),
        ["wants more than 1, has 1", "plain", "failed expression: variables.twice > 5"]
    );
    assert_eq!(found.denials[1], Denial { message: "plain".to_owned(), reason: Reason::Forbidden });
    assert_eq!(verdict(&spec, &json!({"spec": {"replicas": 3}})), Verdict::default());
}

#[test]
fn failures_count_as_the_policy_says() {
    let mut spec = json!({"failurePolicy": "Fail", "validations": [{"expression": "object.a.b == 1"}]});
    let found = verdict(&spec, &json!({}));
    assert_eq!(messages(&found), ["expression 'object.a.b == 1' resulted in error: no such key: a"]);
    spec["failurePolicy"] = "Ignore".into();
    assert_eq!(verdict(&spec, &json!({})), Verdict::default());
    spec["matchConditions"] = json!([{"name": "m", "expression": "has(object.a)"}]);
    spec["failurePolicy"] = "Fail".into();
    assert_eq!(verdict(&spec, &json!({})), Verdict::default());
}

fn mutated(spec: &Value, object: &Value) -> Result<Value, String> {
    let request = json!({});
    let mutator = Mutator::compile(spec);
    let schema = copepod_schema::builtin().kind("apps", "v1", "Deployment").unwrap();
    let mut object = object.clone();
    for mutation in &mutator.mutations {
        object = mutator.mutate(mutation, &input(&object, &request, None), schema)?;
    }
    Ok(object)
}

#[test]
fn mutations_are_merged_and_patched_in_order() {
    let spec = json!({
        "reinvocationPolicy": "Never",
        "variables": [{"name": "n", "expression": "object.spec.replicas + 1"}],
        "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{spec: Object.spec{replicas: variables.n}}"}},
            {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': string(object.spec.replicas)}}]"}},
        ],
    });
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": {"replicas": 1}});
    let new = mutated(&spec, &object).unwrap();
    assert_eq!(new["spec"]["replicas"], 2);
    assert_eq!(new["metadata"]["labels"]["a"], "2");
    let failing = json!({"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression":
        "[JSONPatch{op: 'test', path: '/spec/replicas', value: 5}, JSONPatch{op: 'remove', path: '/spec'}]"}}]});
    assert_eq!(mutated(&failing, &object), Ok(object.clone()));
    let wrong = json!({"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{spec: Object.status{}}"}}]});
    assert!(mutated(&wrong, &object).unwrap_err().starts_with("type mismatch: unexpected type name"));
}
