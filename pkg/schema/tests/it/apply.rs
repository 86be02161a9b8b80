//! Server-side apply against recordings of upstream's field manager.
//!
//! `testdata/schema/apply.json` holds random operations on a custom kind and what the field manager of
//! k8s.io/apimachinery v0.37.2 (its `managedfieldstest` package, times removed) made of them.

use copepod_api::{FieldPath, GroupVersionKind};
use copepod_schema::{
    SchemaSet,
    managed::{self, FieldSet, OneVersion, Request},
};
use serde_json::{Map, Value, json};

const RECORDED: &str = include_str!("../../../../testdata/schema/apply.json");

/// Without times and without empty values: a typed `metadata` drops those, the recorder's untyped one does not.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, _)| *key != "time").map(|(key, value)| {
                let value = if key == "fieldsV1" { value.clone() } else { plain(value) };
                (key.clone(), value)
            });
            let empty = |value: &Value| match value {
                Value::Object(map) => map.is_empty(),
                Value::Array(list) => list.is_empty(),
                other => other.is_null(),
            };
            Value::Object(
                kept.filter(|(key, value)| key == "fieldsV1" || !empty(value)).collect::<Map<_, _>>(),
            )
        }
        Value::Array(list) => Value::Array(list.iter().map(plain).collect()),
        other => other.clone(),
    }
}

/// The lines of an error: upstream names conflicting managers in any order.
fn lines(error: &str) -> Vec<&str> {
    let mut lines: Vec<&str> =
        error.split(['\n', ':']).map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn recorded_operations_end_as_recorded() {
    let recorded: Value = serde_json::from_str(RECORDED).expect("JSON");
    let set = SchemaSet::from_crd(&recorded["schema"], &FieldPath::root()).expect("structural");
    let schema = set.root().expect("made from a schema");
    let gvk = GroupVersionKind::new("example.com", "v1", "Widget");
    let reset = FieldSet::default();
    let mut compared = 0;
    for case in recorded["cases"].as_array().expect("cases") {
        let mut live = json!({"apiVersion": "example.com/v1", "kind": "Widget"});
        let operations = case["operations"].as_array().expect("operations");
        for (at, (operation, expected)) in
            operations.iter().zip(case["results"].as_array().expect("results")).enumerate()
        {
            let manager = operation["manager"].as_str().expect("a name");
            let now = "2030-01-01T00:00:00Z";
            let request = Request {
                schema,
                gvk: &gvk,
                manager,
                subresource: "",
                reset: &reset,
                versions: &OneVersion,
                now,
            };
            let object = &operation["object"];
            let outcome = if operation["operation"] == "apply" {
                managed::apply(Some(&live), object, &request, operation["force"] == true)
            } else {
                let mut new = object.clone();
                managed::update(Some(&live), &mut new, &request);
                Ok(new)
            };
            compared += 1;
            match (outcome, expected["error"].as_str()) {
                (Ok(new), None) => {
                    assert_eq!(plain(&new), plain(expected), "operation {at} of {case}");
                    live = new;
                }
                (Err(error), Some(text)) => {
                    assert_eq!(lines(&error.status().message), lines(text), "operation {at} of {case}");
                }
                (outcome, _) => panic!("operation {at} of {case}: {outcome:?}"),
            }
        }
    }
    assert!(compared > 100, "only {compared} operations");
}
