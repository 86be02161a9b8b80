//! From the `openAPIV3Schema` of a CustomResourceDefinition to a [`SchemaSet`].
//!
//! A custom object's own fields are untyped nodes: decoding prunes them but leaves types to validation. The object's
//! `metadata`, and that of embedded resources, is the built-in ObjectMeta.

use copepod_api::{FieldError, FieldErrors, FieldPath};
use serde_json::{Map, Value};

use crate::node::{
    Builder, Field, Flags, Format, Kind, ListType, Logic, Node, NodeId, Omit, Pattern, Rules, SchemaRef,
    SchemaSet, Span,
};

mod structural;
#[cfg(test)]
mod tests;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

pub(crate) fn build(schema: &Value, path: &FieldPath) -> Result<SchemaSet, FieldErrors> {
    let errors = structural::check(schema, path);
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut converter = Converter { builder: Builder::default() };
    let root = converter.node(schema, true);
    let set = converter.builder.finish(Some(root));
    let mut errors = Vec::new();
    if let Some(root) = set.root() {
        check_defaults(schema, root, path, &mut errors);
    }
    if errors.is_empty() { Ok(set) } else { Err(errors) }
}

/// Defaults must be values of their schema, and whole: nothing in them may be pruned.
fn check_defaults(schema: &Value, node: SchemaRef<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(default) = schema.get("default").filter(|_| !node.is_typed()) {
        let path = path.child("default");
        let mut pruned = default.clone();
        if !crate::defaults::prune(&mut pruned, node).is_empty() {
            errors.push(FieldError::invalid(&path, default.clone(), "must not have unknown fields"));
        }
        crate::defaults::apply(&mut pruned, node);
        errors.extend(crate::validate::validate(&pruned, node, &path));
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if let Some(field) = node.field(name) {
            check_defaults(property, field.schema(), &path.child("properties").key(name), errors);
        }
    }
    for (key, inner) in [("items", node.items()), ("additionalProperties", node.additional())] {
        if let (Some(schema), Some(inner)) = (schema.get(key), inner) {
            check_defaults(schema, inner, &path.child(key), errors);
        }
    }
}

struct Converter {
    builder: Builder,
}

fn text<'v>(schema: &'v Value, key: &str) -> &'v str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn list<'v>(schema: &'v Value, key: &str) -> &'v [Value] {
    schema.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

impl Converter {
    fn node(&mut self, schema: &Value, root: bool) -> NodeId {
        let kind = match text(schema, "type") {
            "object" => Kind::Object,
            "array" => Kind::Array,
            "string" => Kind::String,
            "integer" => Kind::Integer,
            "number" => Kind::Number,
            "boolean" => Kind::Boolean,
            _ => Kind::Any,
        };
        let resource = root || flag(schema, "x-kubernetes-embedded-resource");
        let mut node = Node { kind, flags: flags(schema), ..Node::default() };
        // Merging compares strings of a checked format like any other scalar.
        if kind == Kind::String && !matches!(text(schema, "format"), "" | "byte") {
            node.format = Format::Other;
        }
        node.list_type = match text(schema, "x-kubernetes-list-type") {
            "atomic" => ListType::Atomic,
            "set" => ListType::Set,
            "map" => ListType::Map,
            _ => ListType::Unset,
        };
        let keys: Vec<&str> =
            list(schema, "x-kubernetes-list-map-keys").iter().filter_map(Value::as_str).collect();
        if !keys.is_empty() {
            node.keys = self.builder.keys(&keys);
        }
        node.items = schema.get("items").map(|items| self.node(items, false));
        node.additional = match schema.get("additionalProperties") {
            Some(Value::Object(_)) => {
                schema.get("additionalProperties").map(|values| self.node(values, false))
            }
            // Anything may stand there, but nothing is declared below it, so objects there are pruned empty.
            Some(Value::Bool(true)) => Some(self.builder.intern(Node::default())),
            _ => None,
        };
        let properties = schema.get("properties").and_then(Value::as_object);
        let fields = self.fields(properties, list(schema, "required"), resource);
        if !fields.is_empty() {
            node.fields = self.builder.fields(&fields);
        }
        node.default = schema.get("default").map(|value| self.builder.default_value(value.clone()));
        let rules = self.rules(schema);
        node.rules = self.builder.rules(rules);
        self.builder.intern(node)
    }

    fn fields(
        &mut self,
        properties: Option<&Map<String, Value>>,
        required: &[Value],
        resource: bool,
    ) -> Vec<Field> {
        let mut fields = Vec::new();
        if resource {
            for name in ["apiVersion", "kind"] {
                let declared = properties.and_then(|map| map.get(name));
                let node = match declared {
                    Some(schema) => self.node(schema, false),
                    None => self.builder.intern(Node { kind: Kind::String, ..Node::default() }),
                };
                fields.push(self.field(name, node, required));
            }
            let node = self.metadata(properties.and_then(|map| map.get("metadata")));
            fields.push(self.field("metadata", node, required));
        }
        for (name, schema) in properties.into_iter().flatten() {
            if !(resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata")) {
                let node = self.node(schema, false);
                fields.push(self.field(name, node, required));
            }
        }
        fields
    }

    fn field(&mut self, name: &str, node: NodeId, required: &[Value]) -> Field {
        let required = required.iter().any(|r| r == name);
        let name = self.builder.span(name);
        Field {
            name,
            node,
            number: 0,
            via: [0, 0],
            inlined: Span::default(),
            required,
            pointer: true,
            omit: Omit::Empty,
        }
    }

    /// ObjectMeta, with the rules a schema gives for `name` and `generateName`.
    fn metadata(&mut self, declared: Option<&Value>) -> NodeId {
        let meta = crate::builtin().model(OBJECT_META).expect("the generated table holds ObjectMeta");
        let plain = self.builder.import(meta);
        let properties = declared.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
        let Some(properties) = properties.filter(|map| !map.is_empty()) else { return plain };
        let mut fields = self.builder.fields_of(plain).to_vec();
        for (name, schema) in properties {
            let rules = self.rules(schema);
            let span = self.builder.span(name);
            if let Some(field) = fields.iter_mut().find(|field| field.name == span) {
                let mut node = self.builder.copy(field.node);
                node.rules = self.builder.rules(rules);
                field.node = self.builder.intern(node);
            }
        }
        let mut node = self.builder.copy(plain);
        node.fields = self.builder.fields(&fields);
        self.builder.intern(node)
    }

    fn rules(&mut self, schema: &Value) -> Rules {
        let number = |key: &str| schema.get(key).and_then(Value::as_f64);
        let count = |key: &str| schema.get(key).and_then(Value::as_u64);
        Rules {
            minimum: number("minimum").map(|min| (min, flag(schema, "exclusiveMinimum"))),
            maximum: number("maximum").map(|max| (max, flag(schema, "exclusiveMaximum"))),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            pattern: Some(text(schema, "pattern")).filter(|p| !p.is_empty()).map(Pattern::new),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            required: list(schema, "required").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            enumeration: list(schema, "enum").to_vec(),
            format: crate::validate::checked_format(text(schema, "type"), text(schema, "format")),
            validations: list(schema, "x-kubernetes-validations").to_vec(),
            logic: self.logic(schema),
        }
    }

    fn logic(&mut self, schema: &Value) -> Logic {
        let mut all = |key: &str| list(schema, key).iter().map(|schema| self.node(schema, false)).collect();
        let (all_of, any_of, one_of) = (all("allOf"), all("anyOf"), all("oneOf"));
        Logic { all_of, any_of, one_of, not: schema.get("not").map(|schema| self.node(schema, false)) }
    }
}

fn flags(schema: &Value) -> Flags {
    Flags {
        atomic_map: text(schema, "x-kubernetes-map-type") == "atomic",
        int_or_string: flag(schema, "x-kubernetes-int-or-string"),
        preserve_unknown: flag(schema, "x-kubernetes-preserve-unknown-fields"),
        embedded_resource: flag(schema, "x-kubernetes-embedded-resource"),
        nullable: flag(schema, "nullable"),
        ..Flags::NONE
    }
}
