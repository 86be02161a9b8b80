//! Types from schemas, made when an expression selects a field.

use std::sync::Arc;

use copepod_schema::{
    SchemaRef, SchemaSet,
    node::{Format, Kind, NodeId},
};

use crate::{
    Type, escape,
    types::{Fields, StructType},
    unescape,
};

/// Where schemas live.
#[derive(Debug, Clone)]
pub enum Schemas {
    /// The built-in kinds.
    Builtin(&'static SchemaSet),
    /// A version of a custom resource.
    Custom(Arc<SchemaSet>),
}

impl Schemas {
    /// A node.
    #[must_use]
    pub fn at(&self, id: NodeId) -> SchemaRef<'_> {
        match self {
            Self::Builtin(set) => set.at(id),
            Self::Custom(set) => set.at(id),
        }
    }
}

/// How a schema is looked at.
#[derive(Debug, Clone)]
pub struct View {
    schemas: Schemas,
    /// Whether of `metadata` only the names are seen, as by the rules of custom resources.
    names_only: bool,
}

impl View {
    /// As admission policies see objects.
    #[must_use]
    pub fn whole(schemas: Schemas) -> Self {
        Self { schemas, names_only: false }
    }

    /// As the rules of custom resources see them.
    #[must_use]
    pub fn rules(schemas: Schemas) -> Self {
        Self { schemas, names_only: true }
    }

    /// The type of a node, called `name` in errors; `None` for what expressions cannot see.
    #[must_use]
    pub fn of(&self, id: NodeId, name: &str) -> Option<Type> {
        let schema = self.schemas.at(id);
        if schema.is_int_or_string() || schema.format() == Format::IntOrString {
            return Some(Type::Dyn);
        }
        match (schema.format(), schema.kind()) {
            (Format::Quantity, _) => Some(Type::String),
            (Format::Time | Format::MicroTime, _) => Some(Type::Timestamp),
            (Format::Byte, _) => Some(Type::Bytes),
            (_, Kind::String) => Some(text(schema)),
            (_, Kind::Boolean) => Some(Type::Bool),
            (_, Kind::Number) => Some(Type::Double),
            (_, Kind::Integer) => Some(Type::Int),
            (_, Kind::Array) => {
                let items = schema.items()?;
                self.of(items.id(), &format!("{name}.@idx")).map(Type::list)
            }
            (_, Kind::Object) => self.object(schema, name),
            (_, Kind::Any) => None,
        }
    }

    fn object(&self, schema: SchemaRef<'_>, name: &str) -> Option<Type> {
        if !schema.has_fields()
            && let Some(values) = schema.additional()
        {
            let values = self.of(values.id(), &format!("{name}.@elem"))?;
            return Some(Type::map(Type::String, values));
        }
        Some(Type::object(Object { view: self.clone(), id: schema.id(), name: name.to_owned() }))
    }
}

fn text(schema: SchemaRef<'_>) -> Type {
    match schema.rules().and_then(|rules| rules.format.as_deref()).unwrap_or_default() {
        "byte" => Type::Bytes,
        "duration" => Type::Duration,
        "date" | "date-time" | "datetime" => Type::Timestamp,
        _ => Type::String,
    }
}

struct Object {
    view: View,
    id: NodeId,
    name: String,
}

impl StructType for Object {
    fn name(&self) -> &str {
        &self.name
    }

    fn field(&self, name: &str) -> Option<Type> {
        let property = unescape(name);
        // A name that must be escaped is known by no other.
        if escape(&property).as_deref() != Some(name) {
            return None;
        }
        let schema = self.view.schemas.at(self.id);
        let field = schema.field(&property)?.schema();
        let root = self.view.schemas.at(self.id);
        let resource = root.set().root() == Some(root) || root.is_embedded_resource();
        if self.view.names_only && resource && property == "metadata" {
            let names = vec![("name", Type::String), ("generateName", Type::String)];
            return Some(Type::object(Fields::new("metadata", names)));
        }
        self.view.of(field.id(), &format!("{}.{name}", self.name))
    }
}
