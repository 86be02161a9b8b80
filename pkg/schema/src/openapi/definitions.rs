//! Definitions of built-in types in the words of OpenAPI.

use std::collections::{BTreeMap, BTreeSet};

use copepod_api::ResourceDef;
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
    /// Group versions of the document, in which some types of all groups count as kinds.
    groups: BTreeSet<(String, String)>,
    /// What is in lists, by their definitions.
    lists: BTreeMap<String, String>,
    /// Definitions as JSON text.
    done: BTreeMap<String, String>,
    wanted: BTreeSet<String>,
}

impl Definitions {
    pub(super) fn new(dialect: Dialect, rows: &[&ResourceDef]) -> Self {
        let groups = rows.iter().map(|row| (row.group.clone(), row.version.clone())).collect();
        let lists = rows.iter().map(|row| (super::paths::list_model(row), row.plural.clone())).collect();
        let texts = Descriptions::load();
        Self { dialect, texts, groups, lists, done: BTreeMap::new(), wanted: BTreeSet::new() }
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
            name_values(&mut property);
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
        let kinds = self.gvks(model);
        if !kinds.is_empty() {
            out.insert("x-kubernetes-group-version-kind".to_owned(), Value::Array(kinds));
        }
        if schema.is_atomic_map() {
            out.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
        }
        if let Some(unions) = schema.published() {
            out.insert("x-kubernetes-unions".to_owned(), unions);
        }
        Value::Object(out)
    }

    /// All kinds a definition serves.
    fn gvks(&self, model: &str) -> Vec<Value> {
        let kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
        if let Some(name) = model.strip_prefix(META).and_then(|rest| rest.strip_prefix('.'))
            && matches!(name, "DeleteOptions" | "WatchEvent")
        {
            // Registered in every group.
            let own = self.groups.iter().filter(|(group, _)| !group.is_empty());
            return std::iter::once(kind("", "v1", name)).chain(own.map(|(g, v)| kind(g, v, name))).collect();
        }
        let set = builtin();
        let Some(schema) = set.model(model) else { return Vec::new() };
        let parts = set.kinds_of(schema).into_iter().map(|gvk| gvk.split('/').collect::<Vec<_>>());
        let gvks = parts.filter_map(|parts| match parts[..] {
            [group, version, name] => Some(kind(group, version, name)),
            _ => None,
        });
        gvks.collect()
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

    /// The description of a definition or field. Lists have none of their own in what prose comes from.
    pub(super) fn text(&self, model: &str, field: &str) -> Option<String> {
        self.texts.get(model, field).or_else(|| match field {
            "items" => self.lists.get(model).map(|plural| format!("List of {plural}")),
            "apiVersion" | "kind" => self.texts.get("io.k8s.api.core.v1.Pod", field),
            _ => None,
        })
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
            kind => {
                let mut out = primitive(kind, schema.format());
                if let (Value::Object(map), Some(values)) = (&mut out, schema.published()) {
                    map.insert("enum".to_owned(), values);
                }
                out
            }
        }
    }
}

/// The text of an enumeration ends with its values, as upstream's does.
fn name_values(property: &mut Map<String, Value>) {
    let Some(Value::Array(values)) = property.get("enum") else { return };
    let lines: Vec<String> = values.iter().map(|value| format!(" - `{value}`")).collect();
    let list = format!("Possible enum values:\n{}", lines.join("\n"));
    let text = match property.get("description") {
        Some(Value::String(text)) => format!("{text}\n\n{list}"),
        _ => list,
    };
    property.insert("description".to_owned(), text.into());
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
