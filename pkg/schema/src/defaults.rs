//! Declared defaults and pruning.
//!
//! Functional defaults of built-in kinds are code elsewhere; here is only what a schema declares. The published
//! schemas also carry zero values as defaults of required fields: those are artefacts and change nothing.

use serde_json::{Map, Value};

use crate::node::SchemaRef;

/// Fills in declared defaults, recursively. A `null` where the schema allows none counts as absent.
pub fn apply(value: &mut Value, schema: SchemaRef<'_>) {
    match value {
        Value::Object(map) => {
            for field in schema.fields() {
                let Some(default) = field.schema().default().filter(|d| !is_artefact(d, field.schema()))
                else {
                    continue;
                };
                let absent =
                    map.get(field.name()).is_none_or(|v| v.is_null() && !field.schema().is_nullable());
                if absent {
                    map.insert(field.name().to_owned(), default.clone());
                }
            }
            for (key, value) in map.iter_mut() {
                if let Some(child) = schema.child(key) {
                    if schema.field(key).is_none() {
                        replace_null(value, child);
                    }
                    apply(value, child);
                }
            }
            // What custom resources may not set to null is as good as absent.
            map.retain(|key, value| {
                let child = || schema.child(key).filter(|child| !child.is_typed() && !child.is_nullable());
                !value.is_null() || child().is_none()
            });
        }
        Value::Array(list) => {
            if let Some(items) = schema.items() {
                for item in list {
                    replace_null(item, items);
                    apply(item, items);
                }
            }
        }
        _ => {}
    }
}

fn replace_null(value: &mut Value, schema: SchemaRef<'_>) {
    if value.is_null() && !schema.is_nullable() && !schema.is_typed() {
        *value = schema.default().cloned().unwrap_or(Value::Null);
    }
}

fn is_artefact(default: &Value, schema: SchemaRef<'_>) -> bool {
    schema.is_typed()
        && match default {
            Value::Null => true,
            Value::Bool(on) => !on,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
        }
}

/// Removes `null`s that custom resources may not hold: those that a default would have replaced.
pub fn prune_nulls(value: &mut Value, schema: SchemaRef<'_>) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| {
                let Some(field) = schema.field(key) else { return true };
                !value.is_null() || field.schema().is_nullable() || field.schema().default().is_none()
            });
            for (key, value) in map.iter_mut() {
                if let Some(child) = schema.child(key) {
                    prune_nulls(value, child);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.items() {
                list.iter_mut().for_each(|item| prune_nulls(item, items));
            }
        }
        _ => {}
    }
}

/// Drops undeclared fields and returns their paths, sorted. Decoding prunes already; this is for trees from storage
/// whose schema may have changed.
pub fn prune(value: &mut Value, schema: SchemaRef<'_>) -> Vec<String> {
    let mut dropped = Vec::new();
    walk(value, schema, &mut String::new(), &mut dropped);
    dropped.sort();
    dropped
}

fn walk(value: &mut Value, schema: SchemaRef<'_>, path: &mut String, dropped: &mut Vec<String>) {
    let length = path.len();
    match value {
        Value::Object(map) => {
            if !is_opaque(schema) {
                drop_undeclared(map, schema, path, dropped);
            }
            for (key, value) in map.iter_mut() {
                if let Some(child) = schema.child(key) {
                    if length > 0 {
                        path.push('.');
                    }
                    path.push_str(key);
                    walk(value, child, path, dropped);
                    path.truncate(length);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.items() {
                for (at, item) in list.iter_mut().enumerate() {
                    path.push_str(&format!("[{at}]"));
                    walk(item, items, path, dropped);
                    path.truncate(length);
                }
            }
        }
        _ => {}
    }
}

fn is_opaque(schema: SchemaRef<'_>) -> bool {
    use crate::node::Format;
    matches!(schema.format(), Format::Raw | Format::Fields | Format::Json)
}

fn drop_undeclared(
    map: &mut Map<String, Value>,
    schema: SchemaRef<'_>,
    path: &str,
    dropped: &mut Vec<String>,
) {
    let dot = if path.is_empty() { "" } else { "." };
    map.retain(|key, _| {
        let keep = schema.allows(key);
        if !keep {
            dropped.push(format!("{path}{dot}{key}"));
        }
        keep
    });
}
