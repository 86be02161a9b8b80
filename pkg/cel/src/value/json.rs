//! Between JSON and values.

use std::{borrow::Cow, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use copepod_schema::{
    SchemaRef,
    node::{Format, Kind},
};
use serde_json::{Map as Object, Number, Value};

use super::{Failure, Key, List, Map, Result, Text, Val};
use crate::{escape, library::time};

/// The property that a name in an expression means: properties of typed objects are written escaped.
pub(super) fn name<'k>(key: &'k str, schema: Option<SchemaRef<'_>>) -> Cow<'k, str> {
    match schema {
        Some(schema) if key.contains("__") && schema.additional().is_none() => escape::unescape(key),
        _ => Cow::Borrowed(key),
    }
}

impl<'a> Val<'a> {
    /// JSON as it is.
    #[must_use]
    pub fn json(value: &'a Value) -> Self {
        Self::typed(value, None)
    }

    /// JSON as its schema declares it: numbers, times, durations and bytes have their own types.
    #[must_use]
    pub fn typed(value: &'a Value, schema: Option<SchemaRef<'a>>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => {
                let double = schema.is_some_and(|s| s.kind() == Kind::Number);
                match number.as_i64() {
                    #[expect(
                        clippy::cast_precision_loss,
                        reason = "the declared type is a floating-point number"
                    )]
                    Some(int) if double => Self::Double(int as f64),
                    Some(int) => Self::Int(int),
                    None => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
                }
            }
            Value::String(text) => formatted(text, schema).unwrap_or(Self::Text(Text::Borrowed(text))),
            Value::Array(list) => Self::List(List::Json(list, schema)),
            Value::Object(map) => Self::Map(Map::Json(map, schema)),
        }
    }

    /// The value as JSON.
    ///
    /// # Errors
    /// Values that JSON has no form for.
    pub fn to_json(&self) -> Result<Value> {
        Ok(match self {
            Self::Null | Self::Optional(None) => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::from(*value),
            Self::Uint(value) => Value::from(*value),
            Self::Double(value) => double(*value)?,
            Self::Text(text) => Value::from(&**text),
            Self::Bytes(bytes) => Value::from(STANDARD.encode(bytes)),
            Self::Duration(nanos) => Value::from(time::seconds(*nanos)),
            Self::Time(at) => Value::from(time::rfc3339(*at)),
            Self::List(List::Json(list, _)) => Value::from(list.to_vec()),
            Self::Map(Map::Json(map, _)) => Value::Object((*map).clone()),
            Self::List(list) => Value::Array(list.iter().map(|item| item.to_json()).collect::<Result<_>>()?),
            Self::Map(map) => Value::Object(object(map)?),
            Self::Optional(Some(value)) => value.to_json()?,
            Self::Type(_) | Self::Opaque(_) | Self::Failed(_) => {
                return Err(Failure::new(format!("type conversion error from '{}' to JSON", self.type_of())));
            }
        })
    }
}

fn double(value: f64) -> Result<Value> {
    #[expect(clippy::cast_possible_truncation, reason = "the value is whole and small enough")]
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return Ok(Value::from(value as i64));
    }
    Number::from_f64(value).map(Value::Number).ok_or_else(|| Failure::new("not a JSON number"))
}

fn object(map: &Map<'_>) -> Result<Object<String, Value>> {
    let mut out = Object::new();
    for (key, value) in map.entries() {
        let key = match key.key() {
            Some(Key::Text(text)) => text.to_string(),
            Some(Key::Int(n)) => n.to_string(),
            Some(Key::Uint(n)) => n.to_string(),
            Some(Key::Bool(b)) => b.to_string(),
            None => return Err(Failure::new("unsupported key type")),
        };
        out.insert(key, value.to_json()?);
    }
    Ok(out)
}

/// What text stands for by its declared format; `None` for text.
fn formatted<'a>(text: &str, schema: Option<SchemaRef<'a>>) -> Option<Val<'a>> {
    let schema = schema?;
    if schema.is_int_or_string() {
        return None;
    }
    let named = schema.rules().and_then(|rules| rules.format.as_deref()).unwrap_or_default();
    match (schema.format(), named) {
        (Format::Time | Format::MicroTime, _) | (_, "date-time" | "date" | "datetime") => {
            time::timestamp(text).ok().map(Val::Time)
        }
        (Format::Duration, _) | (_, "duration") => time::duration(text).ok().map(Val::Duration),
        (Format::Byte, _) | (_, "byte") => {
            STANDARD.decode(text).ok().map(|bytes| Val::Bytes(Arc::from(bytes)))
        }
        _ => None,
    }
}
