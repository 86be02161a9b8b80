//! Writing trees in the field order of upstream's Go structs.

use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::Value;

use crate::node::{Kind, SchemaRef};

mod internal;
mod yaml;

pub use internal::internal;
pub use yaml::yaml;

/// The object as compact JSON; properties come in the order of the schema, all others sorted behind them.
#[must_use]
pub fn encode(value: &Value, schema: SchemaRef<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    serde_json::to_writer(&mut out, &Ordered { value, schema: Some(schema) })
        .expect("a tree has string keys, and a Vec takes all writes");
    out
}

/// A document of `meta/v1` or discovery, in the order of its struct; sorted when the kind is not known.
#[must_use]
pub fn document(value: &Value) -> Vec<u8> {
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    let package = match kind {
        "APIGroupDiscoveryList" => "io.k8s.api.apidiscovery.v2",
        _ => "io.k8s.apimachinery.pkg.apis.meta.v1",
    };
    match crate::builtin().model(&format!("{package}.{kind}")) {
        Some(schema) => encode(value, schema),
        None => value.to_string().into_bytes(),
    }
}

/// A value that serializes its fields in schema order.
#[derive(Debug, Clone, Copy)]
pub struct Ordered<'a> {
    /// The tree.
    pub value: &'a Value,
    /// Its schema; none keeps the tree's own (sorted) order.
    pub schema: Option<SchemaRef<'a>>,
}

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(schema) = self.schema.filter(|s| matches!(s.kind(), Kind::Object | Kind::Array | Kind::Any))
        else {
            return self.value.serialize(serializer);
        };
        match self.value {
            Value::Object(map) if schema.has_fields() => {
                let mut out = serializer.serialize_map(Some(map.len()))?;
                for field in schema.fields() {
                    if let Some(value) = map.get(field.name()) {
                        out.serialize_entry(field.name(), &Ordered { value, schema: Some(field.schema()) })?;
                    }
                }
                for (key, value) in map.iter().filter(|(key, _)| schema.field(key).is_none()) {
                    out.serialize_entry(key, &Ordered { value, schema: schema.additional() })?;
                }
                out.end()
            }
            Value::Object(map) if schema.additional().is_some() => {
                let mut out = serializer.serialize_map(Some(map.len()))?;
                for (key, value) in map {
                    out.serialize_entry(key, &Ordered { value, schema: schema.additional() })?;
                }
                out.end()
            }
            Value::Array(list) => {
                let mut out = serializer.serialize_seq(Some(list.len()))?;
                for value in list {
                    out.serialize_element(&Ordered { value, schema: schema.items() })?;
                }
                out.end()
            }
            // A schema position of a CustomResourceDefinition.
            Value::Object(_) if schema.items().is_some_and(SchemaRef::has_fields) => {
                Ordered { value: self.value, schema: schema.items() }.serialize(serializer)
            }
            value => value.serialize(serializer),
        }
    }
}
