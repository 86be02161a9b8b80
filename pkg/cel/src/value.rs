//! Values. JSON is read in place: a list or map of an object is a reference into it, with its schema where there
//! is one.

use std::{collections::HashMap, fmt, sync::Arc};

use copepod_schema::SchemaRef;
use jiff::Timestamp;
use serde_json::Value;

use crate::{library::Opaque, types::Type};

pub(crate) mod compare;
mod json;

/// What went wrong in an evaluation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The language's own errors: `no such key: x`, `division by zero`, …
    #[error("{0}")]
    Error(String),
    /// The limit of one expression's cost.
    #[error("operation cancelled: actual cost limit exceeded")]
    Cost,
    /// Whoever asked does not wait any longer.
    #[error("operation interrupted")]
    Interrupted,
}

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    pub(crate) fn overload() -> Self {
        Self::new("no such overload")
    }
}

/// The outcome of a step.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Text, borrowed from an object or an expression, or made.
#[derive(Clone)]
pub enum Text<'a> {
    /// Part of something that outlives the evaluation.
    Borrowed(&'a str),
    /// Made by the evaluation.
    Made(Arc<str>),
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Made(text) => text,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// A list.
#[derive(Debug, Clone)]
pub enum List<'a> {
    /// Of an object.
    Json(&'a [Value], Option<SchemaRef<'a>>),
    /// Made by the evaluation.
    Made(Arc<Vec<Val<'a>>>),
}

/// A map, or an object.
#[derive(Debug, Clone)]
pub enum Map<'a> {
    /// Of an object.
    Json(&'a serde_json::Map<String, Value>, Option<SchemaRef<'a>>),
    /// Made by the evaluation.
    Made(Arc<Made<'a>>),
}

/// The key of a map.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// `true` or `false`.
    Bool(bool),
    /// Whole numbers of either kind; equal ones are the same key.
    Int(i64),
    /// What no `int` can hold.
    Uint(u64),
    /// Text.
    Text(Arc<str>),
}

/// A map that the evaluation made, in the order of insertion.
#[derive(Debug, Clone, Default)]
pub struct Made<'a> {
    pub(crate) entries: Vec<(Val<'a>, Val<'a>)>,
    pub(crate) index: HashMap<Key, usize>,
    /// The type a constructor named, such as `Object.spec` or `JSONPatch`.
    pub(crate) of: Option<Arc<str>>,
}

/// A value.
#[derive(Clone)]
pub enum Val<'a> {
    /// `null`.
    Null,
    /// `bool`.
    Bool(bool),
    /// `int`.
    Int(i64),
    /// `uint`.
    Uint(u64),
    /// `double`.
    Double(f64),
    /// `string`.
    Text(Text<'a>),
    /// `bytes`.
    Bytes(Arc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    /// A time in UTC.
    Time(Timestamp),
    /// `list`.
    List(List<'a>),
    /// `map`, or an object.
    Map(Map<'a>),
    /// A type as a value.
    Type(Arc<Type>),
    /// `optional_type`.
    Optional(Option<Arc<Self>>),
    /// A value of a library.
    Opaque(Opaque<'a>),
    /// The error that a loop carries on until it is decided whether it counts.
    Failed(Arc<str>),
}

impl fmt::Debug for Val<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(v) => fmt::Debug::fmt(v, f),
            Self::Int(v) => fmt::Debug::fmt(v, f),
            Self::Uint(v) => write!(f, "{v}u"),
            Self::Double(v) => fmt::Debug::fmt(v, f),
            Self::Text(v) => fmt::Debug::fmt(v, f),
            Self::Bytes(v) => write!(f, "{v:?}"),
            Self::Duration(v) => write!(f, "{v}ns"),
            Self::Time(v) => fmt::Debug::fmt(v, f),
            Self::List(v) => fmt::Debug::fmt(v, f),
            Self::Map(v) => fmt::Debug::fmt(v, f),
            Self::Type(v) => write!(f, "{v}"),
            Self::Optional(v) => fmt::Debug::fmt(v, f),
            Self::Opaque(v) => write!(f, "{}", v.type_name()),
            Self::Failed(text) => f.write_str(text),
        }
    }
}

impl<'a> Val<'a> {
    pub(crate) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(Text::Made(text.into()))
    }

    pub(crate) fn made(list: Vec<Self>) -> Self {
        Self::List(List::Made(Arc::new(list)))
    }

    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// The type as `type()` gives it.
    pub(crate) fn type_of(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::Text(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Duration(_) => Type::Duration,
            Self::Time(_) => Type::Timestamp,
            Self::List(_) => Type::list(Type::Dyn),
            Self::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Self::Type(_) => Type::Type(None),
            Self::Optional(_) => Type::optional(Type::Dyn),
            Self::Opaque(value) => Type::Opaque(value.type_name()),
            Self::Failed(_) => Type::Error,
        }
    }

    /// The length, for costs and `size()`; characters of a string.
    pub(crate) fn size(&self) -> Option<usize> {
        match self {
            Self::Text(text) => Some(text.chars().count()),
            Self::Bytes(bytes) => Some(bytes.len()),
            Self::List(list) => Some(list.len()),
            Self::Map(map) => Some(map.len()),
            _ => None,
        }
    }

    /// The value as a key of a map.
    pub(crate) fn key(&self) -> Option<Key> {
        match self {
            Self::Bool(v) => Some(Key::Bool(*v)),
            Self::Int(v) => Some(Key::Int(*v)),
            Self::Uint(v) => Some(i64::try_from(*v).map_or(Key::Uint(*v), Key::Int)),
            Self::Double(v) => compare::whole(*v).map(Key::Int),
            Self::Text(text) => Some(Key::Text(Arc::from(&**text))),
            _ => None,
        }
    }
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(list, _) => list.len(),
            Self::Made(list) => list.len(),
        }
    }

    pub(crate) fn get(&self, at: usize) -> Option<Val<'a>> {
        match self {
            Self::Json(list, schema) => {
                list.get(at).map(|value| Val::typed(value, schema.and_then(SchemaRef::items)))
            }
            Self::Made(list) => list.get(at).cloned(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Val<'a>> + '_ {
        (0..self.len()).filter_map(|at| self.get(at))
    }
}

impl<'a> Map<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(map, schema) => match schema {
                Some(_) => map.iter().filter(|(key, value)| !hidden(key, value, *schema)).count(),
                None => map.len(),
            },
            Self::Made(map) => map.entries.len(),
        }
    }

    /// The entries, in order.
    pub(crate) fn entries(&self) -> Vec<(Val<'a>, Val<'a>)> {
        match self {
            Self::Json(map, schema) => map
                .iter()
                .filter(|(key, value)| !hidden(key, value, *schema))
                .map(|(key, value)| {
                    let child = schema.and_then(|s| s.child(key));
                    (Val::Text(Text::Borrowed(key)), Val::typed(value, child))
                })
                .collect(),
            Self::Made(map) => map.entries.clone(),
        }
    }

    /// The value at a key.
    pub(crate) fn get(&self, key: &Key) -> Option<Val<'a>> {
        match (self, key) {
            (Self::Json(map, schema), Key::Text(key)) => {
                let name = json::name(key, *schema);
                let value = map.get(name.as_ref()).filter(|value| !hidden(&name, value, *schema))?;
                Some(Val::typed(value, schema.and_then(|s| s.child(&name))))
            }
            (Self::Json(..), _) => None,
            (Self::Made(map), key) => {
                map.index.get(key).and_then(|at| map.entries.get(*at)).map(|(_, value)| value.clone())
            }
        }
    }
}

/// A `null` of an object with declared fields is as good as absent, unless the field may be `null`.
fn hidden(name: &str, value: &Value, schema: Option<SchemaRef<'_>>) -> bool {
    value.is_null() && schema.and_then(|s| s.child(name)).is_some_and(|child| !child.is_nullable())
}

impl<'a> Made<'a> {
    /// Adds an entry; whether the key is new.
    pub(crate) fn insert(&mut self, key: Val<'a>, value: Val<'a>) -> Result<bool> {
        let name =
            key.key().ok_or_else(|| Failure::new(format!("unsupported key type: {}", key.type_of())))?;
        if self.index.contains_key(&name) {
            return Ok(false);
        }
        self.index.insert(name, self.entries.len());
        self.entries.push((key, value));
        Ok(true)
    }
}
