//! Trees to messages.

use std::{collections::BTreeMap, str::FromStr as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use super::wire::{put_bytes, put_double, put_varint};
use crate::node::{FieldRef, Format, Kind, SchemaRef};

pub(super) fn message(map: &Map<String, Value>, schema: SchemaRef<'_>) -> Vec<u8> {
    level(map, &schema.fields().collect::<Vec<_>>(), 0)
}

/// One message: its own fields and, `depth` carriers down, the messages that carry inlined structs, all by number.
fn level(map: &Map<String, Value>, fields: &[FieldRef<'_>], depth: usize) -> Vec<u8> {
    let mut slots: BTreeMap<u16, Vec<FieldRef<'_>>> = BTreeMap::new();
    for field in fields {
        let (number, carriers) = field.protobuf();
        let slot = carriers.get(depth).copied().unwrap_or(number);
        if number > 0 {
            slots.entry(slot).or_default().push(*field);
        }
    }
    let mut out = Vec::new();
    for (number, fields) in slots {
        match fields.as_slice() {
            [one, ..] if one.protobuf().1.len() <= depth => {
                field(&mut out, number, *one, map.get(one.name()))
            }
            carried => put_bytes(&mut out, number, &level(map, carried, depth + 1)),
        }
    }
    out
}

fn field(out: &mut Vec<u8>, number: u16, field: FieldRef<'_>, value: Option<&Value>) {
    let schema = field.schema();
    let value = value.filter(|value| !value.is_null());
    match (schema.kind(), value) {
        (Kind::Array, Some(Value::Array(list))) if is_wrapped(schema) => {
            put_bytes(out, number, &wrapped(list, schema))
        }
        (Kind::Array, Some(Value::Array(list))) => {
            for item in list {
                single(out, number, schema.items(), Some(item));
            }
        }
        (Kind::Array, _) => {}
        (Kind::Object, Some(Value::Object(map))) if schema.additional().is_some() => {
            for (key, value) in map {
                put_bytes(out, number, &entry(key, value, schema));
            }
        }
        (Kind::Object, _) if schema.additional().is_some() => {}
        (_, None) if field.is_pointer() || schema.format() == Format::Byte => {}
        (_, value) => single(out, number, Some(schema), value),
    }
}

/// Named slices (`ExtraValue`, `Verbs`) are messages of their own.
fn is_wrapped(schema: SchemaRef<'_>) -> bool {
    schema.kind() == Kind::Array && schema.is_named()
}

fn wrapped(list: &[Value], schema: SchemaRef<'_>) -> Vec<u8> {
    let mut inner = Vec::new();
    for item in list {
        single(&mut inner, 1, schema.items(), Some(item));
    }
    inner
}

fn entry(key: &str, value: &Value, schema: SchemaRef<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, 1, key.as_bytes());
    match (schema.additional(), value) {
        (Some(values), Value::Array(list)) if is_wrapped(values) => {
            put_bytes(&mut out, 2, &wrapped(list, values))
        }
        (values, value) => single(&mut out, 2, values, Some(value).filter(|value| !value.is_null())),
    }
    out
}

/// One value that is neither list nor map; none is the zero value.
fn single(out: &mut Vec<u8>, number: u16, schema: Option<SchemaRef<'_>>, value: Option<&Value>) {
    let Some(schema) = schema else { return };
    let text = || value.and_then(Value::as_str).unwrap_or_default();
    let whole = || value.and_then(Value::as_i64).unwrap_or_default();
    match (schema.format(), schema.kind()) {
        (Format::Byte, _) => put_bytes(out, number, &STANDARD.decode(text()).unwrap_or_default()),
        (Format::Time | Format::MicroTime, _) => put_bytes(out, number, &time(text(), schema.format())),
        (Format::Duration, _) => {
            let mut inner = Vec::new();
            put_varint(&mut inner, 1, copepod_api::duration::parse(text()).unwrap_or_default());
            put_bytes(out, number, &inner);
        }
        (Format::Quantity, _) => {
            let mut inner = Vec::new();
            put_bytes(&mut inner, 1, if text().is_empty() { b"0" } else { text().as_bytes() });
            put_bytes(out, number, &inner);
        }
        (Format::IntOrString, _) => put_bytes(out, number, &int_or_string(value)),
        (Format::Json, _) if schema.items().is_some() => put_bytes(out, number, &schema_or(schema, value)),
        (Format::Raw | Format::Fields | Format::Json, _) => {
            let mut inner = Vec::new();
            if let Some(value) = value {
                put_bytes(&mut inner, 1, value.to_string().as_bytes());
            }
            put_bytes(out, number, &inner);
        }
        (_, Kind::String) => put_bytes(out, number, text().as_bytes()),
        (_, Kind::Integer) => put_varint(out, number, whole()),
        (_, Kind::Number) => put_double(out, number, value.and_then(Value::as_f64).unwrap_or_default()),
        (_, Kind::Boolean) => {
            put_varint(out, number, i64::from(value.and_then(Value::as_bool).unwrap_or_default()))
        }
        _ => {
            let empty = Map::new();
            let map = value.and_then(Value::as_object).unwrap_or(&empty);
            put_bytes(out, number, &message(map, schema));
        }
    }
}

/// Seconds and nanoseconds since the epoch; the zero time is empty.
fn time(text: &str, format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    if let Ok(time) = jiff::Timestamp::from_str(text) {
        let nanos = if format == Format::MicroTime { time.subsec_nanosecond() } else { 0 };
        put_varint(&mut out, 1, time.as_second());
        put_varint(&mut out, 2, i64::from(nanos));
    }
    out
}

fn int_or_string(value: Option<&Value>) -> Vec<u8> {
    let text = value.and_then(Value::as_str);
    let mut out = Vec::new();
    put_varint(&mut out, 1, i64::from(text.is_some()));
    put_varint(&mut out, 2, value.and_then(Value::as_i64).unwrap_or_default());
    put_bytes(&mut out, 3, text.unwrap_or_default().as_bytes());
    out
}

/// A schema, or a boolean, schemas or strings in its place.
fn schema_or(schema: SchemaRef<'_>, value: Option<&Value>) -> Vec<u8> {
    let mut out = Vec::new();
    let name = schema.go_type();
    let is_bool = name.ends_with("OrBool");
    if is_bool {
        // A schema allows what it describes.
        let allows = value.is_some_and(|value| value.as_bool().unwrap_or(true));
        put_varint(&mut out, 1, i64::from(allows));
    }
    match value {
        Some(Value::Object(_)) => single(&mut out, if is_bool { 2 } else { 1 }, schema.items(), value),
        Some(Value::Array(list)) => {
            for item in list {
                match item {
                    Value::String(text) => put_bytes(&mut out, 2, text.as_bytes()),
                    other => single(&mut out, 2, schema.items(), Some(other)),
                }
            }
        }
        _ => {}
    }
    out
}
