use copepod_api::FieldPath;
use serde_json::{Value, json};

use crate::{
    SchemaSet,
    decode::{FieldValidation, decode},
    defaults, validate,
};

fn set(schema: &Value) -> SchemaSet {
    SchemaSet::from_crd(schema, &FieldPath::root()).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn widget() -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 10},
            "mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast"},
            "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
            "port": {"x-kubernetes-int-or-string": true},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
                "items": {"type": "object", "properties": {"id": {"type": "string"}, "n": {"type": "integer", "default": 1}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        }},
        "status": {"type": "object", "properties": {"ready": {"type": "boolean", "nullable": true}}},
    }})
}

#[test]
fn custom_objects_are_pruned_and_defaulted() {
    let set = set(&widget());
    let root = set.root().expect("made from a schema");
    let body = br#"{"apiVersion":"x/v1","kind":"Widget","metadata":{"name":"a","foo":1,"labels":{}},
        "spec":{"size":2,"zap":1,"free":{"any":{"thing":1}},"parts":[{"id":"a","x":1}],"mode":null,
        "pod":{"kind":"Pod","metadata":{"name":"p","bad":1},"spec":{"x":1}}}, "extra": true}"#;
    let decoded = decode(body, root, FieldValidation::Warn).expect("lenient");
    assert_eq!(
        decoded.warnings,
        [
            r#"unknown field "extra""#,
            r#"unknown field "metadata.foo""#,
            r#"unknown field "spec.parts[0].x""#,
            r#"unknown field "spec.pod.metadata.bad""#,
            r#"unknown field "spec.zap""#,
        ]
    );
    let mut object = decoded.object;
    defaults::apply(&mut object, root);
    assert_eq!(
        object,
        json!({"apiVersion": "x/v1", "kind": "Widget", "metadata": {"name": "a"},
            "spec": {"size": 2, "mode": "fast", "free": {"any": {"thing": 1}}, "parts": [{"id": "a", "n": 1}],
                "pod": {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": 1}}}})
    );
    assert!(validate::validate(&object, root, &FieldPath::root()).is_empty());
}

#[test]
fn violations_read_as_upstream_writes_them() {
    let set = set(&widget());
    let root = set.root().expect("made from a schema");
    let object = json!({"metadata": {"name": "a"}, "spec": {"mode": "warp", "name": "ABCD", "port": true,
        "tags": ["a", "b", "a"], "parts": [{"id": "x"}, {"id": "x"}], "labels": {"k": 1}}, "status": {"ready": null}});
    let mut errors: Vec<String> =
        validate::validate(&object, root, &FieldPath::root()).iter().map(ToString::to_string).collect();
    errors.sort();
    assert_eq!(
        errors,
        [
            r#"spec.labels.k: Invalid value: "integer": spec.labels.k in body must be of type string: "integer""#,
            r#"spec.mode: Unsupported value: "warp": supported values: "fast", "slow""#,
            r#"spec.name: Too long: may not be more than 3 bytes"#,
            r#"spec.parts[1]: Duplicate value: {"id":"x"}"#,
            r#"spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean""#,
            r#"spec.size: Required value"#,
            r#"spec.tags[2]: Duplicate value: "a""#,
        ]
    );
    let bounds = json!({"spec": {"size": 11}});
    assert_eq!(
        validate::validate(&bounds, root, &FieldPath::root())[0].to_string(),
        "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"
    );
}

#[test]
fn junctors_are_checked() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}}});
    let set = set(&schema);
    let root = set.root().expect("made from a schema");
    let errors = |object: Value| validate::validate(&object, root, &FieldPath::root());
    assert!(errors(json!({"spec": {"a": "x"}})).is_empty());
    let both = errors(json!({"spec": {"a": "x", "b": "y"}}));
    assert!(
        both[0]
            .to_string()
            .contains(r#""spec" must validate one and only one schema (oneOf). Found 2 valid alternatives"#)
    );
    assert_eq!(errors(json!({"spec": {}})).len(), 2);
}

#[test]
fn schemas_must_be_structural() {
    let text = |schema: Value| -> String {
        let errors = SchemaSet::from_crd(&schema, &FieldPath::new("s")).err().unwrap_or_default();
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(text(json!({})), "s.type: Required value: must not be empty at the root");
    assert_eq!(
        text(json!({"type": "object", "properties": {"a": {}}})),
        "s.properties[a].type: Required value: must not be empty for specified object fields"
    );
    assert_eq!(
        text(json!({"type": "object", "properties": {"a": {"type": "array"}}})),
        "s.properties[a].items: Required value: must be specified"
    );
    assert_eq!(
        text(json!({"type": "object", "anyOf": [{"properties": {"b": {"type": "string"}}}]})),
        "s.anyOf[0].properties[b].type: Forbidden: must be empty to be structural\n\
         s.properties[b]: Required value: because it is defined in s.anyOf[0].properties[b]"
    );
    assert!(text(json!({"type": "object", "$ref": "x"})).contains("$ref is not supported"));
    assert!(
        text(json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}))
            .contains("must be a valid regular expression")
    );
    assert!(
        text(json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "object"},
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}}}))
        .contains("entries must all be names of item properties")
    );
    assert!(
        text(json!({"type": "object", "properties": {"p": {"x-kubernetes-int-or-string": true,
        "anyOf": [{"type": "integer"}, {"type": "string"}]}}}))
        .is_empty()
    );
}

#[test]
fn defaults_must_fit_their_schema() {
    let text = |default: Value| -> String {
        let schema = json!({"type": "object", "properties": {"a": {"type": "object",
            "properties": {"n": {"type": "integer", "maximum": 3}}, "default": default}}});
        let errors = SchemaSet::from_crd(&schema, &FieldPath::root()).err().unwrap_or_default();
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(text(json!({"n": 1})), "");
    assert!(
        text(json!({"n": "x"})).contains(
            "properties[a].default.n: Invalid value: \"string\": n in body must be of type integer"
        )
    );
    assert!(text(json!({"z": 1})).contains("must not have unknown fields"));
}

#[test]
fn updates_are_judged_by_what_they_change() {
    let set = set(&widget());
    let root = set.root().expect("made from a schema");
    let old =
        json!({"spec": {"size": 99, "mode": "warp", "parts": [{"id": "a", "n": "x"}, {"id": "b", "n": 1}]}});
    let mut new = old.clone();
    new["spec"]["mode"] = json!("fast");
    new["spec"]["parts"][1]["n"] = json!(2);
    assert_eq!(validate::validate_update(&new, &old, root, &FieldPath::root()), []);
    new["spec"]["size"] = json!(98);
    new["spec"]["tags"] = json!(["a", "a"]);
    let errors = validate::validate_update(&new, &old, root, &FieldPath::root());
    let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields, ["spec.size", "spec.tags[1]"]);
}
