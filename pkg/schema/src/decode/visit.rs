//! The schema-driven visitor behind decoding.

use std::{collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::{
    node::{Format, Kind, SchemaRef},
    scalar,
};

/// Upstream stops collecting here.
const MAX_COMPLAINTS: usize = 100;

/// What one decoding collects.
pub(super) struct Context {
    strict: bool,
    /// Where we are, list indices and map keys included: `spec.containers[0]`.
    path: String,
    /// Where we are in Go's terms: field names only.
    fields: Vec<String>,
    /// The innermost Go struct, without its package.
    owner: String,
    pub(super) complaints: Vec<String>,
    /// The first value of a wrong type.
    mismatch: Option<String>,
    /// The first error of a type that decodes itself: Go stops there, whatever it noted before.
    stopped: Option<String>,
}

impl Context {
    pub(super) const fn new(strict: bool) -> Self {
        Self {
            strict,
            path: String::new(),
            fields: Vec::new(),
            owner: String::new(),
            complaints: Vec::new(),
            mismatch: None,
            stopped: None,
        }
    }

    fn complain(&mut self, what: &str, field: &str) {
        if !self.strict || self.complaints.len() >= MAX_COMPLAINTS {
            return;
        }
        let dot = if self.path.is_empty() { "" } else { "." };
        let text = format!("{what} field {:?}", format!("{}{dot}{field}", self.path));
        if !self.complaints.contains(&text) {
            self.complaints.push(text);
        }
    }

    /// The error that Go's decoder would return.
    pub(super) fn type_error(&mut self) -> Option<String> {
        self.stopped.take().or_else(|| self.mismatch.take())
    }

    /// Records that a JSON `value` ("string", "number 5", …) does not fit a Go type.
    fn mismatch(&mut self, value: &str, schema: SchemaRef<'_>) {
        let (go_type, decodes_itself) = match schema.format() {
            Format::Time | Format::MicroTime | Format::Duration => ("string".to_owned(), true),
            Format::IntOrString => ("int32".to_owned(), true),
            Format::Quantity => return self.fail(scalar::QUANTITY_ERROR.to_owned()),
            _ => (schema.go_type(), false),
        };
        let text = if self.fields.is_empty() {
            format!("json: cannot unmarshal {value} into Go value of type {go_type}")
        } else {
            let path = self.fields.join(".");
            format!(
                "json: cannot unmarshal {value} into Go struct field {}.{path} of type {go_type}",
                self.owner
            )
        };
        if decodes_itself {
            self.fail(text);
        } else if self.stopped.is_none() {
            self.mismatch.get_or_insert(text);
        }
    }

    fn fail(&mut self, text: String) {
        self.stopped.get_or_insert(text);
    }

    /// Runs `inner` one step down the path.
    fn below<T>(&mut self, step: &str, inner: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        if self.strict {
            if length > 0 && !step.starts_with('[') {
                self.path.push('.');
            }
            self.path.push_str(step);
        }
        let result = inner(self);
        self.path.truncate(length);
        result
    }
}

/// Decodes one value under one node; no node keeps everything as it is.
pub(super) struct Seed<'s, 'c> {
    schema: Option<SchemaRef<'s>>,
    /// Whether the whole of an unknown tree is kept, without looking for duplicates inside: raw bytes upstream.
    raw: bool,
    context: &'c mut Context,
}

impl<'s, 'c> Seed<'s, 'c> {
    pub(super) const fn root(schema: SchemaRef<'s>, context: &'c mut Context) -> Self {
        Self { schema: Some(schema), raw: false, context }
    }

    pub(super) const fn untyped(context: &'c mut Context) -> Self {
        Self { schema: None, raw: false, context }
    }

    /// The node when it belongs to a built-in type, so that Go's decoder would check it.
    fn typed(&self) -> Option<SchemaRef<'s>> {
        self.schema.filter(|schema| schema.is_typed())
    }

    fn is_opaque(&self) -> bool {
        self.raw
            || self.schema.is_some_and(|s| matches!(s.format(), Format::Raw | Format::Fields | Format::Json))
    }

    /// Records the mismatch of a scalar and yields the zero value, as Go's decoder goes on.
    fn scalar_mismatch(self, value: &str, schema: SchemaRef<'_>) -> Value {
        self.context.mismatch(value, schema);
        Value::Null
    }

    fn integer(self, number: Number) -> Value {
        let Some(schema) = self.typed() else { return Value::Number(number) };
        let fits = match schema.format() {
            Format::Int32 | Format::IntOrString => number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
            Format::Uint8 => number.as_u64().is_some_and(|n| u8::try_from(n).is_ok()),
            Format::Uint32 => number.as_u64().is_some_and(|n| u32::try_from(n).is_ok()),
            Format::Uint64 => number.is_u64(),
            _ => number.is_i64(),
        };
        match (schema.kind(), schema.format()) {
            (_, Format::Raw | Format::Fields | Format::Json) | (Kind::Number, _) => Value::Number(number),
            (_, Format::Quantity) => self.text_of(schema, &number.to_string()),
            (Kind::Integer, _) | (_, Format::IntOrString) if fits => Value::Number(number),
            (Kind::Integer, _) | (_, Format::IntOrString) => {
                self.scalar_mismatch(&format!("number {number}"), schema)
            }
            (Kind::Any, _) => Value::Number(number),
            _ => self.scalar_mismatch("number", schema),
        }
    }

    fn text(self, text: &str) -> Value {
        let Some(schema) = self.typed() else { return text.into() };
        match (schema.kind(), schema.format()) {
            (_, Format::Raw | Format::Fields | Format::Json | Format::IntOrString) | (Kind::Any, _) => {
                text.into()
            }
            (Kind::String, Format::None) => text.into(),
            (Kind::String, _) => self.text_of(schema, text),
            _ => self.scalar_mismatch("string", schema),
        }
    }

    fn text_of(self, schema: SchemaRef<'_>, text: &str) -> Value {
        match scalar::text(schema.format(), text) {
            Ok(value) => value,
            Err(error) => {
                // Bytes are decoded by the decoder itself, everything else by its own type.
                if schema.format() == Format::Byte {
                    self.context.mismatch.get_or_insert(error);
                } else {
                    self.context.fail(error);
                }
                Value::Null
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(match self.typed() {
            Some(s) if !self.is_opaque() && !matches!(s.kind(), Kind::Boolean | Kind::Any) => {
                self.scalar_mismatch("bool", s)
            }
            Some(s) if s.format() == Format::IntOrString => self.scalar_mismatch("bool", s),
            _ => Value::Bool(value),
        })
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(self.integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(self.integer(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("number out of range"))?;
        let Some(schema) = self.typed() else { return Ok(whole(value).unwrap_or(Value::Number(number))) };
        Ok(match (schema.kind(), schema.format()) {
            (Kind::Integer, _) | (_, Format::IntOrString) => {
                self.scalar_mismatch(&format!("number {number}"), schema)
            }
            (_, Format::Quantity) => self.text_of(schema, &number.to_string()),
            (Kind::Number | Kind::Any, _) | (_, Format::Raw | Format::Fields) => Value::Number(number),
            _ => self.scalar_mismatch("number", schema),
        })
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(self.text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let opaque = self.is_opaque();
        let fits = |s: &SchemaRef<'_>| {
            s.format() != Format::IntOrString && matches!(s.kind(), Kind::Array | Kind::Any)
        };
        if let Some(schema) = self.typed().filter(|s| !opaque && !fits(s)) {
            self.scalar_mismatch("array", schema);
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        }
        let schema = self.schema.and_then(SchemaRef::items);
        let raw = opaque && schema.is_none();
        let mut list = Vec::new();
        let context = self.context;
        loop {
            let step = format!("[{}]", list.len());
            let item = context.below(&step, |context| {
                items.next_element_seed(Seed { schema, raw, context: &mut *context })
            })?;
            match item {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Value, A::Error> {
        let opaque = self.is_opaque();
        // A schema position of a CustomResourceDefinition holds a schema when it is an object.
        let alternative = self.schema.filter(|s| s.format() == Format::Json).and_then(SchemaRef::items);
        match self.schema {
            Some(schema)
                if !opaque
                    && schema.is_typed()
                    && (schema.format() == Format::IntOrString
                        || !matches!(schema.kind(), Kind::Object | Kind::Any)) =>
            {
                self.scalar_mismatch("object", schema);
                skip(entries)
            }
            Some(_) if alternative.is_some() => object(entries, alternative, false, self.context),
            Some(schema) if !opaque => object(entries, Some(schema), false, self.context),
            _ => object(entries, None, self.raw || opaque, self.context),
        }
    }
}

/// Go writes a float without a fraction as an integer.
fn whole(value: f64) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let plain = value.fract() == 0.0 && value.abs() <= EXACT;
    plain.then(|| format!("{value:.0}").parse::<i64>().ok().map(Value::from)).flatten()
}

fn skip<'de, A: MapAccess<'de>>(mut entries: A) -> Result<Value, A::Error> {
    while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(Value::Null)
}

fn object<'de, A: MapAccess<'de>>(
    mut entries: A,
    schema: Option<SchemaRef<'_>>,
    raw: bool,
    context: &mut Context,
) -> Result<Value, A::Error> {
    let mut map = Map::new();
    // Null and unknown fields leave no trace in the map but may still be given twice.
    let mut seen = HashSet::new();
    let outer = schema.filter(|s| s.is_typed() && s.has_fields()).map(|s| {
        let name = s.go_type();
        let name = name.rsplit('.').next().unwrap_or(&name).to_owned();
        std::mem::replace(&mut context.owner, name)
    });
    while let Some(key) = entries.next_key::<String>()? {
        if raw {
            let value = entries.next_value_seed(Seed { schema: None, raw, context: &mut *context })?;
            map.insert(key, value);
            continue;
        }
        let known = schema.is_none_or(|s| s.allows(&key));
        if !seen.insert(key.clone()) && known {
            context.complain("duplicate", &key);
        }
        if !known {
            context.complain("unknown", &key);
            entries.next_value::<IgnoredAny>()?;
            continue;
        }
        let value = member(&mut entries, &key, schema, context)?;
        merge(&mut map, key, value);
    }
    if let Some(outer) = outer {
        context.owner = outer;
    }
    if map.len() > usize::from(u16::MAX) * 16 {
        return Err(A::Error::custom("object has too many fields"));
    }
    Ok(Value::Object(map))
}

fn member<'de, A: MapAccess<'de>>(
    entries: &mut A,
    key: &str,
    schema: Option<SchemaRef<'_>>,
    context: &mut Context,
) -> Result<Value, A::Error> {
    let field = schema.filter(|s| s.is_typed()).and_then(|s| s.field(key));
    let child = schema.and_then(|s| s.child(key));
    if let Some(field) = field {
        let inlined = field.inlined();
        context.fields.push(if inlined.is_empty() { key.to_owned() } else { format!("{inlined}.{key}") });
    }
    let value = context.below(key, |context| {
        entries.next_value_seed(Seed { schema: child, raw: false, context: &mut *context })
    });
    if field.is_some() {
        context.fields.pop();
    }
    value
}

/// A field given twice: Go's decoder decodes the second on top of the first.
fn merge(map: &mut Map<String, Value>, key: String, value: Value) {
    match (map.get_mut(&key), value) {
        (Some(Value::Object(old)), Value::Object(new)) => {
            for (key, value) in new {
                merge(old, key, value);
            }
        }
        (_, value) => {
            map.insert(key, value);
        }
    }
}
