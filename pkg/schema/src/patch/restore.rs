//! What upstream says when a strategically merged tree does not fit its struct: the texts of its converter from trees
//! to structs, which are not those of its JSON decoder.

use serde_json::Value;

use crate::node::{Format, Kind, SchemaRef};

/// The first value that does not fit, in the order of fields; `None` where the two agree, or the JSON text holds.
pub(super) fn mismatch(value: &Value, schema: SchemaRef<'_>) -> Option<String> {
    if value.is_null() || schema.format() == Format::IntOrString {
        return None;
    }
    match (schema.kind(), value) {
        (Kind::Object, Value::Object(map)) if schema.has_fields() => schema
            .fields()
            .filter_map(|field| Some((field, map.get(field.name())?)))
            .find_map(|(field, value)| mismatch(value, field.schema())),
        (Kind::Object, Value::Object(map)) => {
            let values = schema.additional()?;
            map.values().find_map(|value| mismatch(value, values))
        }
        (Kind::Object, other) if schema.additional().is_some() => {
            Some(format!("cannot restore map from {}", kind(other)))
        }
        (Kind::Object, other) if schema.has_fields() => {
            Some(format!("cannot restore struct from: {}", kind(other)))
        }
        (Kind::Array, Value::Array(list)) => {
            let items = schema.items()?;
            list.iter().find_map(|item| mismatch(item, items))
        }
        (Kind::Array, other) => Some(format!("cannot restore slice from {}", kind(other))),
        (Kind::String, Value::String(_)) | (Kind::Boolean, Value::Bool(_)) => None,
        (Kind::Integer | Kind::Number, Value::Number(_)) => None,
        (Kind::String, Value::Number(number)) if number.is_i64() && schema.format() == Format::None => {
            Some(format!("cannot convert int64 to {}", schema.go_type()))
        }
        (Kind::String, _) if schema.format() == Format::None => Some("unrecognized type: string".to_owned()),
        (Kind::Boolean, _) => Some("unrecognized type: bool".to_owned()),
        (Kind::Integer | Kind::Number, _) => Some(format!("unrecognized type: {}", schema.go_type())),
        _ => None,
    }
}

/// Go's kind of a tree's value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::builtin;

    #[test]
    fn texts_name_kinds() {
        let deployment = builtin().kind("apps", "v1", "Deployment").expect("built in");
        for (object, text) in [
            (json!({"metadata": {"labels": "x"}}), "cannot restore map from string"),
            (json!({"spec": {"replicas": "x"}}), "unrecognized type: int32"),
            (json!({"spec": 1}), "cannot restore struct from: int64"),
            (json!({"spec": {"template": {"spec": {"containers": {}}}}}), "cannot restore slice from map"),
        ] {
            assert_eq!(super::mismatch(&object, deployment).as_deref(), Some(text));
        }
        assert_eq!(super::mismatch(&json!({"spec": {"replicas": 1, "selector": null}}), deployment), None);
    }
}
