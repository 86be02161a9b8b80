//! Definitions of built-in types in the words of OpenAPI.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::Dialect;
use crate::{
    builtin,
    descriptions::Descriptions,
    node::{FieldRef, Format, Kind, ListType, SchemaRef},
};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const CRD: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/// Collects definitions and everything they refer to.
pub(super) struct Definitions {
    pub(super) dialect: Dialect,
    texts: Descriptions,
    /// Definitions as JSON text.
    done: BTreeMap<String, String>,
    wanted: BTreeSet<String>,
}

impl Definitions {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, texts: Descriptions::load(), done: BTreeMap::new(), wanted: BTreeSet::new() }
    }

    /// A reference to a built-in definition, which will be part of the document.
    pub(super) fn reference(&mut self, model: &str) -> Value {
        self.wanted.insert(model.to_owned());
        self.dialect.reference(model)
    }

    /// Adds a definition made elsewhere.
    pub(super) fn insert(&mut self, model: &str, definition: &Value) {
        self.done.insert(model.to_owned(), definition.to_string());
    }

    /// All definitions, closed under reference.
    pub(super) fn finish(mut self) -> BTreeMap<String, String> {
        while let Some(model) = self.wanted.pop_first() {
            if self.done.contains_key(&model) {
                continue;
            }
            let definition = match builtin().model(&model) {
                Some(schema) => self.definition(schema, &model),
                None => self.basic_definition(&model),
            };
            self.done.insert(model, definition.to_string());
        }
        self.done
    }

    fn definition(&mut self, schema: SchemaRef<'_>, model: &str) -> Value {
        let mut out = Map::new();
        self.describe(&mut out, model, "");
        let mut properties = Map::new();
        let mut required = Vec::new();
        for field in schema.fields() {
            if field.is_required() {
                required.push(Value::from(field.name()));
            }
            let mut property = self.property(field);
            self.describe(&mut property, model, field.name());
            if let (1, Some(Value::Array(one))) = (property.len(), property.get_mut("allOf")) {
                // Nothing stands beside the reference.
                property = one.pop().and_then(|only| only.as_object().cloned()).unwrap_or_default();
            }
            properties.insert(field.name().to_owned(), Value::Object(property));
        }
        if !properties.is_empty() {
            out.insert("properties".to_owned(), Value::Object(properties));
        }
        if !required.is_empty() {
            out.insert("required".to_owned(), Value::Array(required));
        }
        out.insert("type".to_owned(), "object".into());
        let kinds = gvks(model);
        if !kinds.is_empty() {
            out.insert("x-kubernetes-group-version-kind".to_owned(), Value::Array(kinds));
        }
        if schema.is_atomic_map() {
            out.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
        }
        Value::Object(out)
    }

    /// One property, without its description.
    fn property(&mut self, field: FieldRef<'_>) -> Map<String, Value> {
        let schema = field.schema();
        let mut out = match self.type_(schema) {
            // Beside a reference nothing else may stand in v3.
            Value::Object(reference) if reference.contains_key("$ref") && self.dialect == Dialect::V3 => {
                Map::from_iter([("allOf".to_owned(), json!([reference]))])
            }
            Value::Object(map) => map,
            _ => Map::new(),
        };
        self.merge_attributes(schema, &mut out);
        if self.dialect == Dialect::V3 {
            let value_struct = out.contains_key("allOf") && !field.is_pointer() && has_zero_object(schema);
            if let Some(default) = schema.default() {
                out.insert("default".to_owned(), default.clone());
            } else if value_struct {
                out.insert("default".to_owned(), json!({}));
            }
        }
        out
    }

    fn merge_attributes(&self, schema: SchemaRef<'_>, out: &mut Map<String, Value>) {
        let mut put = |key: &str, value: Value| {
            out.insert(format!("x-kubernetes-{key}"), value);
        };
        match schema.list_type() {
            ListType::Unset => {}
            ListType::Atomic => put("list-type", "atomic".into()),
            ListType::Set => put("list-type", "set".into()),
            ListType::Map => {
                put("list-type", "map".into());
                put("list-map-keys", schema.list_keys().collect());
            }
        }
        if schema.is_atomic_map() && schema.model().is_none() {
            put("map-type", "atomic".into());
        }
        if schema.is_granular_map() {
            put("map-type", "granular".into());
        }
        let strategy = schema.patch_strategy();
        let words =
            [(strategy.merge, "merge"), (strategy.retain_keys, "retainKeys"), (strategy.replace, "replace")];
        let words: Vec<&str> = words.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect();
        if !words.is_empty() {
            put("patch-strategy", words.join(",").into());
        }
        if let Some(key) = schema.merge_key() {
            put("patch-merge-key", key.into());
        }
    }

    /// Definitions that are no Go structs.
    fn basic_definition(&self, model: &str) -> Value {
        let name = model.rsplit('.').next().unwrap_or(model);
        let mut out = match (name, self.dialect) {
            ("Time" | "MicroTime", _) => json!({"type": "string", "format": "date-time"}),
            ("Duration", _) => json!({"type": "string"}),
            ("Quantity", Dialect::V3) => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            ("Quantity", Dialect::V2) => json!({"type": "string"}),
            ("IntOrString", Dialect::V3) => {
                json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
            }
            ("IntOrString", Dialect::V2) => json!({"format": "int-or-string", "type": "string"}),
            (name, _) if name.starts_with("JSON") => json!({}),
            _ => json!({"type": "object"}),
        };
        if let Value::Object(map) = &mut out {
            self.describe(map, model, "");
        }
        out
    }

    /// The description of a definition or field.
    pub(super) fn text(&self, model: &str, field: &str) -> Option<String> {
        self.texts.get(model, field)
    }

    fn describe(&self, out: &mut Map<String, Value>, model: &str, field: &str) {
        if let Some(text) = self.text(model, field) {
            out.insert("description".to_owned(), text.into());
        }
    }

    /// The type of a value: a reference or an inline schema.
    fn type_(&mut self, schema: SchemaRef<'_>) -> Value {
        if let Some(model) = schema.model() {
            return self.reference(model);
        }
        if let Some(model) = special(schema) {
            return self.reference(&model);
        }
        match schema.kind() {
            Kind::Array => {
                let items = schema.items().map_or(Value::Null, |items| self.type_(items));
                json!({"type": "array", "items": items})
            }
            Kind::Object => {
                let values = schema.additional().map_or_else(|| json!({}), |values| self.type_(values));
                json!({"type": "object", "additionalProperties": values})
            }
            Kind::Any => json!({"type": "object"}),
            kind => primitive(kind, schema.format()),
        }
    }
}

/// Whether the published documents give the type's zero value as `{}`.
fn has_zero_object(schema: SchemaRef<'_>) -> bool {
    match schema.format() {
        Format::None => schema.kind() == Kind::Object,
        _ => false,
    }
}

fn primitive(kind: Kind, format: Format) -> Value {
    let format = match format {
        Format::Int32 => "int32",
        Format::Int64 => "int64",
        Format::Uint8 => "byte",
        Format::Uint32 | Format::Uint64 => "int64",
        Format::Double => "double",
        Format::Byte => "byte",
        _ => return json!({"type": kind.name()}),
    };
    json!({"type": kind.name(), "format": format})
}

/// The definition behind a type with an encoding of its own.
fn special(schema: SchemaRef<'_>) -> Option<String> {
    Some(match schema.format() {
        Format::Time => format!("{META}.Time"),
        Format::MicroTime => format!("{META}.MicroTime"),
        Format::Fields => format!("{META}.FieldsV1"),
        Format::Duration => format!("{META}.Duration"),
        Format::Quantity => "io.k8s.apimachinery.pkg.api.resource.Quantity".to_owned(),
        Format::IntOrString => "io.k8s.apimachinery.pkg.util.intstr.IntOrString".to_owned(),
        Format::Raw => "io.k8s.apimachinery.pkg.runtime.RawExtension".to_owned(),
        // A schema or something else in its place: a definition of that name.
        Format::Json if schema.items().is_some() => {
            format!("{CRD}.{}", schema.go_type().trim_start_matches("v1."))
        }
        Format::Json => format!("{CRD}.JSON"),
        _ => return None,
    })
}

/// All kinds a definition serves.
fn gvks(model: &str) -> Vec<Value> {
    let set = builtin();
    let Some(schema) = set.model(model) else { return Vec::new() };
    set.kinds_of(schema)
        .into_iter()
        .filter_map(|gvk| {
            let mut parts = gvk.split('/');
            let (group, version, kind) = (parts.next()?, parts.next()?, parts.next()?);
            Some(json!({"group": group, "version": version, "kind": kind}))
        })
        .collect()
}
