//! Types of the language, and how they are written.

use std::{fmt, sync::Arc};

/// A type with named fields, looked up when an expression selects one.
pub trait StructType: Send + Sync {
    /// The name in error texts; two types are the same when their names are.
    fn name(&self) -> &str;

    /// The type of a field, `None` when there is no such field.
    fn field(&self, name: &str) -> Option<Type>;

    /// Whether its fields are variables of their own, computed when an expression asks for one.
    fn computed(&self) -> bool {
        false
    }
}

/// A handle on a [`StructType`]. Cloning is cheap.
#[derive(Clone)]
pub struct Struct(pub Arc<dyn StructType>);

impl fmt::Debug for Struct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

impl PartialEq for Struct {
    fn eq(&self, other: &Self) -> bool {
        self.0.name() == other.0.name()
    }
}

impl Eq for Struct {}

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Checked when evaluated.
    Dyn,
    /// What an expression that does not check has.
    Error,
    /// `null_type`.
    Null,
    /// `bool`.
    Bool,
    /// `int`.
    Int,
    /// `uint`.
    Uint,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// `google.protobuf.Duration`.
    Duration,
    /// `google.protobuf.Timestamp`.
    Timestamp,
    /// `list(T)`.
    List(Arc<Self>),
    /// `map(K, V)`.
    Map(Arc<(Self, Self)>),
    /// `optional_type(T)`.
    Optional(Arc<Self>),
    /// `type(T)`, or `type` alone.
    Type(Option<Arc<Self>>),
    /// A library's type, such as `kubernetes.Quantity`.
    Opaque(&'static str),
    /// A type with fields.
    Struct(Struct),
    /// A type that is still to be found.
    Param(u32),
}

impl Type {
    /// A list of a type.
    #[must_use]
    pub fn list(item: Self) -> Self {
        Self::List(Arc::new(item))
    }

    /// A map.
    #[must_use]
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    /// An optional value.
    #[must_use]
    pub fn optional(of: Self) -> Self {
        Self::Optional(Arc::new(of))
    }

    /// The type of a type.
    #[must_use]
    pub fn of(self) -> Self {
        Self::Type(Some(Arc::new(self)))
    }

    /// A type with fields.
    #[must_use]
    pub fn object(fields: impl StructType + 'static) -> Self {
        Self::Struct(Struct(Arc::new(fields)))
    }

    /// The name as `type()` gives it: without parameters.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Dyn | Self::Param(_) => "dyn",
            Self::Error => "error",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Opaque(name) => name,
            Self::Struct(s) => s.0.name(),
        }
    }

    /// As the checker's errors write it, which differs from [`fmt::Display`] in a few names.
    #[must_use]
    pub(crate) fn checked(&self) -> String {
        let params = |list: &[&Self]| {
            let list: Vec<String> = list.iter().map(|t| t.checked()).collect();
            format!("{}({})", self.name(), list.join(", "))
        };
        match self {
            Self::Error => "!error!".to_owned(),
            Self::Null => "null".to_owned(),
            Self::Duration => "duration".to_owned(),
            Self::Timestamp => "timestamp".to_owned(),
            Self::Param(n) => format!("_var{n}"),
            Self::List(t) | Self::Optional(t) | Self::Type(Some(t)) => params(&[t]),
            Self::Map(t) => params(&[&t.0, &t.1]),
            _ => self.name().to_owned(),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(t) | Self::Optional(t) | Self::Type(Some(t)) => write!(f, "{}({t})", self.name()),
            Self::Map(t) => write!(f, "map({}, {})", t.0, t.1),
            _ => f.write_str(self.name()),
        }
    }
}

/// A type with a fixed list of fields.
#[derive(Debug)]
pub struct Fields {
    name: &'static str,
    fields: Vec<(&'static str, Type)>,
}

impl Fields {
    /// A type called `name`.
    #[must_use]
    pub fn new(name: &'static str, fields: Vec<(&'static str, Type)>) -> Self {
        Self { name, fields }
    }
}

impl StructType for Fields {
    fn name(&self) -> &str {
        self.name
    }

    fn field(&self, name: &str) -> Option<Type> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, t)| t.clone())
    }
}
