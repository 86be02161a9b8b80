//! What every object has in common, read from and written to a JSON tree.

use serde_json::{Map, Value};

/// The string at `/metadata/<field>`; empty when absent.
fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// `metadata.name`, or empty.
#[must_use]
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// `metadata.namespace`, or empty.
#[must_use]
pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// `metadata.uid`, or empty.
#[must_use]
pub fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// `metadata.resourceVersion`, or empty.
#[must_use]
pub fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

/// `metadata.generation`, or 0.
#[must_use]
pub fn generation(object: &Value) -> i64 {
    object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0)
}

/// `metadata.deletionTimestamp`, when the object is being deleted.
#[must_use]
pub fn deletion_timestamp(object: &Value) -> Option<&str> {
    object.pointer("/metadata/deletionTimestamp").and_then(Value::as_str)
}

/// `metadata.labels`.
#[must_use]
pub fn labels(object: &Value) -> Option<&Map<String, Value>> {
    object.pointer("/metadata/labels").and_then(Value::as_object)
}

/// `metadata.annotations`.
#[must_use]
pub fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.pointer("/metadata/annotations").and_then(Value::as_object)
}

/// One annotation.
#[must_use]
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    annotations(object)?.get(key)?.as_str()
}

/// `metadata.finalizers`, empty when absent.
#[must_use]
pub fn finalizers(object: &Value) -> Vec<&str> {
    object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// The `metadata` map, made when absent. An object that is not a map becomes one.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    child_mut(as_map(object), "metadata")
}

/// The map below `key`, made when absent or of another type.
pub fn child_mut<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    as_map(map.entry(key).or_insert_with(|| Value::Object(Map::new())))
}

fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object above")
}
