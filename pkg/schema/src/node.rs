//! The arena of schema nodes: what every algorithm of this crate walks.
//!
//! A [`SchemaSet`] owns nodes, fields and text; a [`SchemaRef`] is a `Copy` handle on one node. The set of the
//! built-in types borrows all its text from the generated table; a set made from a CustomResourceDefinition owns
//! its own. Equal anonymous nodes are shared, so the whole of Kubernetes is some thousand small records.

use std::{borrow::Cow, collections::HashMap};

use copepod_api::{FieldErrors, FieldPath};
use serde_json::Value;

mod build;
mod handle;
mod rules;

pub(crate) use build::Builder;
pub use handle::{FieldRef, SchemaRef};
pub(crate) use rules::Logic;
pub use rules::{Pattern, Rules};

/// Index of a node in its [`SchemaSet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

/// A piece of the set's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) len: u16,
}

/// The JSON type a node stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    /// Anything (no type given, or a type with an encoding of its own such as `JSON`).
    #[default]
    Any,
    /// A struct, a map, or both.
    Object,
    /// A list.
    Array,
    /// A string.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
}

impl Kind {
    /// OpenAPI's name of the type; empty for [`Kind::Any`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// What the value encodes, beyond its JSON type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// Nothing special.
    #[default]
    None,
    /// 32 bits, signed.
    Int32,
    /// 64 bits, signed.
    Int64,
    /// 32 bits, unsigned.
    Uint32,
    /// 64 bits, unsigned.
    Uint64,
    /// One byte.
    Uint8,
    /// A 64-bit floating-point number.
    Double,
    /// Bytes in base64.
    Byte,
    /// RFC 3339 in whole seconds (`metav1.Time`).
    Time,
    /// RFC 3339 in microseconds (`metav1.MicroTime`).
    MicroTime,
    /// A Go duration such as `1h0m0s` (`metav1.Duration`).
    Duration,
    /// A resource quantity.
    Quantity,
    /// A 32-bit integer or a string.
    IntOrString,
    /// Any object, kept as it is (`runtime.RawExtension`).
    Raw,
    /// The field set of a managed-fields entry.
    Fields,
    /// Any JSON value (`apiextensions JSON` and its relatives).
    Json,
    /// A format of a CustomResourceDefinition that only validation knows; its name is in [`Rules::format`].
    Other,
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ListType {
    /// Not declared; server-side apply treats such a list as atomic.
    #[default]
    Unset,
    /// Replaced as a whole.
    Atomic,
    /// Unique scalars.
    Set,
    /// Objects identified by their key fields.
    Map,
}

/// `x-kubernetes-patch-strategy`, as a set of flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PatchStrategy {
    /// The list or map is merged by a strategic merge patch.
    pub merge: bool,
    /// Explicitly replaced.
    pub replace: bool,
    /// Keys that the patch does not name are dropped (unions).
    pub retain_keys: bool,
}

/// When upstream's encoder leaves a field out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Omit {
    /// Never: the zero value is written.
    Never,
    /// When empty in Go's sense (`omitempty`); structs are never empty.
    #[default]
    Empty,
    /// When zero (`omitzero`), structs and times included.
    Zero,
}

/// Boolean attributes of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Flags {
    pub(crate) atomic_map: bool,
    /// Explicitly not atomic, where the referred type is.
    pub(crate) granular_map: bool,
    pub(crate) int_or_string: bool,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded_resource: bool,
    pub(crate) nullable: bool,
    /// The node is part of a built-in Go type: decoding checks types and canonical form has rules.
    pub(crate) typed: bool,
    /// `additionalProperties: true`: any property, of any type.
    pub(crate) open: bool,
}

impl Flags {
    /// No attribute set.
    pub(crate) const NONE: Self = Self {
        atomic_map: false,
        granular_map: false,
        int_or_string: false,
        preserve_unknown: false,
        embedded_resource: false,
        nullable: false,
        typed: false,
        open: false,
    };
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) format: Format,
    pub(crate) flags: Flags,
    pub(crate) list_type: ListType,
    pub(crate) patch: PatchStrategy,
    /// Range of `SchemaSet::fields`.
    pub(crate) fields: (u32, u16),
    /// Range of `SchemaSet::keys`.
    pub(crate) keys: (u32, u8),
    pub(crate) items: Option<NodeId>,
    pub(crate) additional: Option<NodeId>,
    pub(crate) merge_key: Span,
    /// OpenAPI's name of the definition.
    pub(crate) model: Span,
    /// Go's name of the type, as upstream's decoding errors print it.
    pub(crate) go: Span,
    /// What only the published documents say, as JSON: a string's enumeration, a definition's unions.
    pub(crate) published: Span,
    /// Index of `SchemaSet::defaults`.
    pub(crate) default: Option<u32>,
    /// Index of `SchemaSet::rules`.
    pub(crate) rules: Option<u32>,
}

/// One property of an object node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) name: Span,
    pub(crate) node: NodeId,
    /// Protobuf field number; 0 where there is none.
    pub(crate) number: u16,
    /// Protobuf numbers of the embedded messages that carry the field, outermost first; 0 for none.
    pub(crate) via: [u16; 2],
    /// Go's names of the inlined structs on the way to the field.
    pub(crate) inlined: Span,
    pub(crate) required: bool,
    pub(crate) pointer: bool,
    pub(crate) omit: Omit,
}

/// Nodes, fields and text of one family of types.
#[derive(Debug, Default)]
pub struct SchemaSet {
    pub(crate) text: Cow<'static, str>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) fields: Vec<Field>,
    /// For each range of fields, the positions inside the range sorted by name.
    pub(crate) sorted: Vec<u16>,
    pub(crate) keys: Vec<Span>,
    pub(crate) defaults: Vec<Value>,
    pub(crate) rules: Vec<Rules>,
    /// Definitions, sorted by model name.
    pub(crate) models: Vec<NodeId>,
    /// `group/version/Kind` → definition.
    pub(crate) kinds: HashMap<String, NodeId>,
    /// The root of a CustomResourceDefinition's set.
    pub(crate) root: Option<NodeId>,
}

impl SchemaSet {
    /// The set of one version of a CustomResourceDefinition, from its `openAPIV3Schema`.
    ///
    /// # Errors
    /// Everything that keeps the schema from being structural, with paths below `path`.
    pub fn from_crd(schema: &Value, path: &FieldPath) -> Result<Self, FieldErrors> {
        crate::crd::build(schema, path)
    }

    /// The set of a table in the generator's notation (see [`crate::builtin`]).
    ///
    /// # Panics
    /// On a malformed table: tables are generated, never input.
    #[must_use]
    pub fn from_table(text: &'static str) -> Self {
        crate::table::load(text)
    }

    /// The definition called `model`, such as `io.k8s.api.core.v1.Pod`.
    #[must_use]
    pub fn model(&self, model: &str) -> Option<SchemaRef<'_>> {
        let at = self.models.binary_search_by(|id| self.str(self.node(*id).model).cmp(model)).ok()?;
        self.models.get(at).map(|id| self.at(*id))
    }

    /// The definition that serves a kind; `group` is empty for the core group.
    #[must_use]
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<SchemaRef<'_>> {
        self.kinds.get(&format!("{group}/{version}/{kind}")).map(|id| self.at(*id))
    }

    /// The kinds (`group/version/Kind`) that a definition serves, sorted.
    #[must_use]
    pub fn kinds_of(&self, schema: SchemaRef<'_>) -> Vec<&str> {
        let serves = self.kinds.iter().filter(|(_, id)| **id == schema.id());
        let mut kinds: Vec<&str> = serves.map(|(kind, _)| kind.as_str()).collect();
        kinds.sort_unstable();
        kinds
    }

    /// All named definitions in the order of their names.
    pub fn models(&self) -> impl Iterator<Item = SchemaRef<'_>> {
        self.models.iter().map(|id| self.at(*id))
    }

    /// The root node of a set that was made from one schema.
    #[must_use]
    pub fn root(&self) -> Option<SchemaRef<'_>> {
        self.root.map(|id| self.at(id))
    }

    /// A handle on a node of this set.
    #[must_use]
    pub const fn at(&self, id: NodeId) -> SchemaRef<'_> {
        SchemaRef::new(self, id)
    }

    /// Bytes of memory held, text of the generated table not counted (it lies in the binary).
    #[must_use]
    pub fn memory(&self) -> usize {
        let owned = if let Cow::Owned(text) = &self.text { text.capacity() } else { 0 };
        owned
            + self.nodes.capacity() * size_of::<Node>()
            + self.fields.capacity() * size_of::<Field>()
            + self.sorted.capacity() * size_of::<u16>()
            + self.keys.capacity() * size_of::<Span>()
            + self.defaults.capacity() * size_of::<Value>()
            + self.rules.capacity() * size_of::<Rules>()
            + self.models.capacity() * size_of::<NodeId>()
            + self.kinds.keys().map(|key| key.capacity() + size_of::<(String, NodeId)>()).sum::<usize>()
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(id.0 as usize).expect("node ids come from the builder of the same set")
    }

    pub(crate) fn str(&self, span: Span) -> &str {
        let start = span.start as usize;
        self.text
            .get(start..start + usize::from(span.len))
            .expect("spans come from the builder of the same set")
    }
}
