//! The canonical form of an object: the fields that upstream's encoder would write after decoding it.
//!
//! Go structs have no absent fields. What the struct tags say decides what comes out: optional values that are empty
//! vanish, required ones appear as their zero value, `null` stands for a nil list, map or pointer without
//! `omitempty`. Only nodes of built-in types have such rules; trees of custom resources are left alone apart from
//! their `metadata`.

use serde_json::{Map, Value};

use crate::node::{FieldRef, Format, Kind, Omit, SchemaRef};

/// Brings `value` to canonical form. Unknown fields of built-in types are kept; use [`crate::decode`] to drop them.
pub fn canonicalize(value: &mut Value, schema: SchemaRef<'_>) {
    match value {
        Value::Object(map) => object(map, schema),
        Value::Array(list) => {
            if let Some(items) = schema.items() {
                for item in list {
                    if item.is_null() && items.is_typed() {
                        *item = zero(items);
                    }
                    canonicalize(item, items);
                }
            }
        }
        Value::Number(number) if schema.is_typed() && schema.kind() == Kind::Number => {
            // Go writes a whole float64 without a fraction.
            if let Some(whole) = number.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 1e15) {
                #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
                let whole = whole as i64;
                *value = whole.into();
            }
        }
        _ => {}
    }
}

fn object(map: &mut Map<String, Value>, schema: SchemaRef<'_>) {
    if matches!(schema.format(), Format::Raw | Format::Fields) {
        return;
    }
    if schema.format() == Format::Json {
        if let Some(inner) = schema.items() {
            object(map, inner);
        }
        return;
    }
    if schema.is_typed() && schema.has_fields() {
        for field in schema.fields() {
            self::field(map, field);
        }
        return;
    }
    for (key, value) in map.iter_mut() {
        if let Some(child) = schema.child(key) {
            if value.is_null() && child.is_typed() {
                *value = element_zero(child);
            }
            canonicalize(value, child);
        }
    }
}

fn field(map: &mut Map<String, Value>, field: FieldRef<'_>) {
    let schema = field.schema();
    let value = map.entry(field.name()).or_insert(Value::Null);
    if value.is_null() {
        if omits_absent(field) {
            map.remove(field.name());
            return;
        }
        *value = field_zero(field);
    }
    canonicalize(value, schema);
    if field.is_pointer() {
        return;
    }
    let gone = match field.omit() {
        Omit::Never => false,
        Omit::Empty => is_empty(value, schema),
        Omit::Zero => is_empty(value, schema) || *value == zero(schema) || is_zero_struct(value),
    };
    if gone {
        map.remove(field.name());
    } else if field.omit() == Omit::Never && is_list_or_map(schema) && is_empty(value, schema) {
        // Storage knows no difference between an empty and a nil list.
        *value = Value::Null;
    }
}

fn is_zero_struct(value: &Value) -> bool {
    value.as_object().is_some_and(|map| map.values().all(is_zero_struct)) || value.is_null()
}

/// Whether the encoder leaves the field out when nothing was given.
fn omits_absent(field: FieldRef<'_>) -> bool {
    match field.omit() {
        Omit::Never => false,
        Omit::Zero => true,
        Omit::Empty => field.is_pointer() || !is_struct(field.schema()),
    }
}

fn is_list_or_map(schema: SchemaRef<'_>) -> bool {
    match schema.kind() {
        Kind::Array => true,
        Kind::Object => !schema.has_fields() && schema.format() == Format::None,
        _ => false,
    }
}

/// Whether Go holds the value as a struct, which `omitempty` never omits.
fn is_struct(schema: SchemaRef<'_>) -> bool {
    match schema.format() {
        Format::Time | Format::MicroTime | Format::Duration | Format::Quantity | Format::IntOrString => true,
        Format::Raw | Format::Fields | Format::Json => true,
        _ => schema.kind() == Kind::Object && (schema.has_fields() || schema.model().is_some()),
    }
}

fn is_empty(value: &Value, schema: SchemaRef<'_>) -> bool {
    match value {
        _ if is_struct(schema) => false,
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn field_zero(field: FieldRef<'_>) -> Value {
    if field.is_pointer() { Value::Null } else { zero(field.schema()) }
}

/// The encoding of Go's zero value.
fn zero(schema: SchemaRef<'_>) -> Value {
    match schema.format() {
        Format::Time | Format::MicroTime | Format::Raw | Format::Fields | Format::Json | Format::Byte => {
            Value::Null
        }
        Format::Duration => "0s".into(),
        Format::Quantity => "0".into(),
        Format::IntOrString => 0.into(),
        _ => match schema.kind() {
            Kind::String => "".into(),
            Kind::Integer | Kind::Number => 0.into(),
            Kind::Boolean => false.into(),
            Kind::Object if schema.has_fields() || schema.model().is_some() => Value::Object(Map::new()),
            Kind::Any | Kind::Array | Kind::Object => Value::Null,
        },
    }
}

/// The zero value of a map's element, where stored bytes and lists come back as empty, not nil.
fn element_zero(schema: SchemaRef<'_>) -> Value {
    match (schema.format(), schema.kind()) {
        (Format::Byte, _) => "".into(),
        (_, Kind::Array) => Value::Array(Vec::new()),
        _ => zero(schema),
    }
}
