//! What a node means for merging: a scalar, a list or a map, and how its parts relate.

use serde_json::Value;

use crate::node::{Format, Kind, ListType, SchemaRef};

/// The type of a position in a tree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Type<'s> {
    /// Described by a schema. `keep`: an ancestor preserves unknown fields, so all maps below are open.
    Node { schema: SchemaRef<'s>, keep: bool },
    /// Nothing is known: maps are merged entry by entry, lists are replaced.
    Deduced,
    /// Nothing is known and everything is replaced as a whole.
    Untyped,
}

/// How a value at a position is handled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Atom<'s> {
    Scalar(Scalar),
    List(List<'s>),
    Map(MapType<'s>),
}

/// The scalars that merging tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Numeric,
    String,
    Boolean,
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct List<'s> {
    pub(super) relation: Relation,
    pub(super) items: Type<'s>,
    /// The list's own node, for its keys.
    pub(super) schema: Option<SchemaRef<'s>>,
}

/// How the items of a list are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Atomic,
    Set,
    /// Keys from `x-kubernetes-list-map-keys`.
    Keys,
    /// The one key of a strategic merge patch, where no list type is declared.
    MergeKey,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MapType<'s> {
    pub(super) atomic: bool,
    pub(super) schema: Option<SchemaRef<'s>>,
    /// The type of entries that are not declared fields; none where there must not be any.
    pub(super) element: Option<Type<'s>>,
    keep: bool,
}

impl<'s> MapType<'s> {
    /// Whether `name` is a declared field.
    pub(super) fn declares(&self, name: &str) -> bool {
        self.schema.is_some_and(|schema| schema.field(name).is_some())
    }

    /// The type below `name`; none for an undeclared field.
    pub(super) fn child(&self, name: &str) -> Option<Type<'s>> {
        let field = self.schema.and_then(|schema| schema.field(name));
        match field {
            Some(field) => Some(Type::Node { schema: field.schema(), keep: self.keep }),
            None => self.element,
        }
    }
}

impl<'s> List<'s> {
    pub(super) fn keys(&self) -> Vec<&'s str> {
        match (self.relation, self.schema) {
            (Relation::Keys, Some(schema)) => schema.list_keys().collect(),
            (Relation::MergeKey, Some(schema)) => schema.merge_key().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The default of a key field of the items.
    pub(super) fn key_default(&self, key: &str) -> Option<&'s Value> {
        let Type::Node { schema, .. } = self.items else { return None };
        schema.field(key)?.schema().default()
    }
}

impl<'s> Type<'s> {
    pub(super) const fn of(schema: SchemaRef<'s>) -> Self {
        Self::Node { schema, keep: false }
    }

    /// How `value` is handled here: by its own type where the schema allows several.
    pub(super) fn atom(self, value: Option<&Value>) -> Atom<'s> {
        match self {
            Self::Deduced | Self::Untyped => self.free(value),
            Self::Node { schema, keep } => schema_atom(schema, keep, value),
        }
    }

    fn free(self, value: Option<&Value>) -> Atom<'s> {
        let atomic = self == Self::Untyped;
        match value {
            Some(Value::Array(_)) => {
                Atom::List(List { relation: Relation::Atomic, items: Self::Untyped, schema: None })
            }
            Some(Value::String(_) | Value::Number(_) | Value::Bool(_)) => Atom::Scalar(Scalar::Any),
            _ => Atom::Map(MapType { atomic, schema: None, element: Some(self), keep: false }),
        }
    }
}

fn schema_atom<'s>(schema: SchemaRef<'s>, keep: bool, value: Option<&Value>) -> Atom<'s> {
    let keep = keep || schema.preserves_unknown();
    match (schema.format(), schema.kind()) {
        (Format::Raw, _) => Type::Untyped.free(value),
        (Format::Quantity | Format::IntOrString, _) => Atom::Scalar(Scalar::Any),
        _ if schema.is_int_or_string() => Atom::Scalar(Scalar::Any),
        (Format::Time | Format::MicroTime | Format::Other, Kind::String) => Atom::Scalar(Scalar::Any),
        (_, Kind::String) => Atom::Scalar(Scalar::String),
        (_, Kind::Integer | Kind::Number) => Atom::Scalar(Scalar::Numeric),
        (_, Kind::Boolean) => Atom::Scalar(Scalar::Boolean),
        (_, Kind::Array) => Atom::List(list(schema, keep)),
        (_, Kind::Object) => Atom::Map(map(schema, keep)),
        (_, Kind::Any) => match value {
            Some(Value::String(_) | Value::Number(_) | Value::Bool(_)) => Atom::Scalar(Scalar::Any),
            Some(Value::Array(_)) => {
                Atom::List(List { relation: Relation::Atomic, items: Type::Untyped, schema: None })
            }
            _ => Atom::Map(map(schema, keep)),
        },
    }
}

fn list(schema: SchemaRef<'_>, keep: bool) -> List<'_> {
    let strategy = schema.patch_strategy();
    let relation = match schema.list_type() {
        ListType::Atomic => Relation::Atomic,
        ListType::Set => Relation::Set,
        ListType::Map => Relation::Keys,
        ListType::Unset if strategy.merge && schema.merge_key().is_some() => Relation::MergeKey,
        ListType::Unset if strategy.merge => Relation::Set,
        ListType::Unset => Relation::Atomic,
    };
    let items = schema.items().map_or(Type::Untyped, |schema| Type::Node { schema, keep });
    List { relation, items, schema: Some(schema) }
}

fn map(schema: SchemaRef<'_>, keep: bool) -> MapType<'_> {
    let additional = schema.additional().map(|schema| Type::Node { schema, keep });
    let open = schema.is_open() || keep || !schema.has_fields();
    let element = additional.or_else(|| open.then_some(Type::Deduced));
    MapType { atomic: schema.is_atomic_map(), schema: Some(schema), element, keep }
}
