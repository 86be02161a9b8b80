//! Messages to trees.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Number, Value};

use super::{
    ProtobufError,
    wire::{self, Content, Field, Fields},
};
use crate::{
    node::{FieldRef, Format, Kind, SchemaRef},
    scalar,
};

/// Deeper than any object; JSON schemas nest deepest.
const MAX_DEPTH: usize = 200;

type Result<T> = std::result::Result<T, ProtobufError>;

pub(super) fn message(bytes: &[u8], schema: SchemaRef<'_>, depth: usize) -> Result<Map<String, Value>> {
    let mut map = Map::new();
    carried(bytes, schema, &[], depth, &mut map)?;
    Ok(map)
}

/// Reads the fields below some carriers; none for the message itself.
fn carried(
    bytes: &[u8],
    schema: SchemaRef<'_>,
    carriers: &[u16],
    depth: usize,
    map: &mut Map<String, Value>,
) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(ProtobufError::TooDeep);
    }
    for wire in Fields::new(bytes) {
        let wire = wire?;
        let Ok(number) = u16::try_from(wire.number) else { continue };
        if let Some(field) = schema.fields().find(|field| field.protobuf() == (number, carriers)) {
            if number > 0 {
                read_field(wire, field, depth, map)?;
            }
            continue;
        }
        let inner: Vec<u16> = carriers.iter().copied().chain([number]).collect();
        if schema.fields().any(|field| field.protobuf().1.starts_with(&inner)) {
            carried(wire.bytes()?, schema, &inner, depth + 1, map)?;
        }
    }
    Ok(())
}

fn read_field(
    wire: Field<'_>,
    field: FieldRef<'_>,
    depth: usize,
    map: &mut Map<String, Value>,
) -> Result<()> {
    let schema = field.schema();
    let name = field.name();
    match (schema.kind(), schema.items(), schema.additional()) {
        (Kind::Array, Some(items), _) if is_wrapped(schema) => {
            map.insert(name.to_owned(), Value::Array(wrapped(wire.bytes()?, items, depth)?));
        }
        (Kind::Array, Some(items), _) => {
            let list = map.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                repeated(wire, items, depth, list)?;
            }
        }
        (Kind::Object, _, Some(values)) => {
            let (key, value) = entry(wire.bytes()?, values, depth)?;
            let inner = map.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                inner.insert(key, value);
            }
        }
        _ => {
            map.insert(name.to_owned(), single(wire, schema, depth)?);
        }
    }
    Ok(())
}

/// Named slices (`ExtraValue`, `Verbs`) are messages of their own.
fn is_wrapped(schema: SchemaRef<'_>) -> bool {
    schema.kind() == Kind::Array && schema.is_named()
}

fn wrapped(bytes: &[u8], items: SchemaRef<'_>, depth: usize) -> Result<Vec<Value>> {
    let mut list = Vec::new();
    for wire in Fields::new(bytes) {
        let wire = wire?;
        if wire.number == 1 {
            list.push(single(wire, items, depth + 1)?);
        }
    }
    Ok(list)
}

/// One item, or many numbers packed into one field.
fn repeated(wire: Field<'_>, items: SchemaRef<'_>, depth: usize, list: &mut Vec<Value>) -> Result<()> {
    if let (Content::Bytes(mut packed), Kind::Integer | Kind::Boolean) = (wire.content, items.kind()) {
        while !packed.is_empty() {
            let content = Content::Varint(wire::varint(&mut packed)?);
            list.push(single(Field { number: wire.number, content }, items, depth)?);
        }
        return Ok(());
    }
    list.push(single(wire, items, depth)?);
    Ok(())
}

fn entry(bytes: &[u8], values: SchemaRef<'_>, depth: usize) -> Result<(String, Value)> {
    let mut key = String::new();
    let mut value = if values.format() == Format::Byte { "".into() } else { Value::Null };
    for wire in Fields::new(bytes) {
        let wire = wire?;
        match (wire.number, values.items()) {
            (1, _) => wire.text()?.clone_into(&mut key),
            (2, Some(items)) if is_wrapped(values) => {
                value = Value::Array(wrapped(wire.bytes()?, items, depth)?)
            }
            (2, _) => value = single(wire, values, depth + 1)?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn json(bytes: &[u8]) -> Result<Value> {
    serde_json::from_slice(bytes).map_err(|error| ProtobufError::Content(error.to_string()))
}

fn single(wire: Field<'_>, schema: SchemaRef<'_>, depth: usize) -> Result<Value> {
    Ok(match (schema.format(), schema.kind()) {
        (Format::Byte, _) => STANDARD.encode(wire.bytes()?).into(),
        (Format::Time | Format::MicroTime, _) => time(wire.bytes()?, schema.format())?,
        (Format::Duration, _) => {
            let nanos = first(wire.bytes()?, 1)?.map_or(Ok(0), |field| field.signed())?;
            copepod_api::duration::format(nanos).into()
        }
        (Format::Quantity, _) => match first(wire.bytes()?, 1)? {
            Some(field) => scalar::quantity(field.text()?).map_err(ProtobufError::Content)?,
            None => "0".into(),
        },
        (Format::IntOrString, _) => int_or_string(wire.bytes()?)?,
        (Format::Json, _) if schema.items().is_some() => schema_or(wire.bytes()?, schema, depth)?,
        (Format::Raw | Format::Fields | Format::Json, _) => match first(wire.bytes()?, 1)? {
            Some(field) if !field.bytes()?.is_empty() => json(field.bytes()?)?,
            _ => Value::Null,
        },
        (_, Kind::String) => wire.text()?.into(),
        (_, Kind::Integer) => wire.signed()?.into(),
        (_, Kind::Number) => Number::from_f64(wire.double()?).map_or(Value::Null, Value::Number),
        (_, Kind::Boolean) => (wire.signed()? != 0).into(),
        _ => Value::Object(message(wire.bytes()?, schema, depth + 1)?),
    })
}

fn first(bytes: &[u8], number: u32) -> Result<Option<Field<'_>>> {
    Fields::new(bytes).find(|field| field.as_ref().map_or(true, |f| f.number == number)).transpose()
}

fn time(bytes: &[u8], format: Format) -> Result<Value> {
    let part = |number| first(bytes, number)?.map_or(Ok(0), |field| field.signed());
    let (seconds, nanos) = (part(1)?, part(2)?);
    if (seconds, nanos) == (0, 0) {
        return Ok(Value::Null);
    }
    let nanos = i32::try_from(nanos).unwrap_or_default();
    let time =
        jiff::Timestamp::new(seconds, nanos).map_err(|error| ProtobufError::Content(error.to_string()))?;
    scalar::text(format, &time.to_string()).map_err(ProtobufError::Content)
}

fn int_or_string(bytes: &[u8]) -> Result<Value> {
    let is_text = first(bytes, 1)?.map_or(Ok(0), |field| field.signed())? == 1;
    Ok(if is_text {
        first(bytes, 3)?.map_or(Ok(""), |field| field.text())?.into()
    } else {
        first(bytes, 2)?.map_or(Ok(0), |field| field.signed())?.into()
    })
}

fn schema_or(bytes: &[u8], schema: SchemaRef<'_>, depth: usize) -> Result<Value> {
    let Some(inner) = schema.items() else { return Ok(Value::Null) };
    let name = schema.go_type();
    let is_bool = name.ends_with("OrBool");
    let (mut allows, mut list, mut object) = (false, Vec::new(), None);
    for wire in Fields::new(bytes) {
        let wire = wire?;
        match (wire.number, is_bool) {
            (1, true) => allows = wire.signed()? != 0,
            (2, true) | (1, false) => object = Some(single(wire, inner, depth + 1)?),
            (2, false) if name.ends_with("OrStringArray") => list.push(wire.text()?.into()),
            (2, false) => list.push(single(wire, inner, depth + 1)?),
            _ => {}
        }
    }
    Ok(match object {
        Some(object) => object,
        None if is_bool => allows.into(),
        None if list.is_empty() => Value::Null,
        None => Value::Array(list),
    })
}
