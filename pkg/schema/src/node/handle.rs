//! Handles: cheap, copyable views on one node or one field.

use std::fmt;

use copepod_api::FieldPath;
use serde_json::Value;

use super::{Field, Format, Kind, ListType, Node, NodeId, Omit, PatchStrategy, Rules, SchemaSet};

/// A handle on one node.
#[derive(Clone, Copy)]
pub struct SchemaRef<'a> {
    set: &'a SchemaSet,
    id: NodeId,
}

impl fmt::Debug for SchemaRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SchemaRef({} {})", self.id.0, self.go_type())
    }
}

impl PartialEq for SchemaRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.set, other.set) && self.id == other.id
    }
}

impl<'a> SchemaRef<'a> {
    pub(crate) const fn new(set: &'a SchemaSet, id: NodeId) -> Self {
        Self { set, id }
    }

    pub(super) fn node(self) -> &'a Node {
        self.set.node(self.id)
    }

    /// The set this node belongs to.
    #[must_use]
    pub const fn set(self) -> &'a SchemaSet {
        self.set
    }

    /// The node's index in its set, for caches keyed by node.
    #[must_use]
    pub const fn id(self) -> NodeId {
        self.id
    }

    /// The JSON type.
    #[must_use]
    pub fn kind(self) -> Kind {
        self.node().kind
    }

    /// What the value encodes.
    #[must_use]
    pub fn format(self) -> Format {
        self.node().format
    }

    /// OpenAPI's name of the definition, if the node is one.
    #[must_use]
    pub fn model(self) -> Option<&'a str> {
        Some(self.set.str(self.node().model)).filter(|name| !name.is_empty())
    }

    /// Whether Go has a name for the type beyond what it is made of.
    #[must_use]
    pub fn is_named(self) -> bool {
        !self.set.str(self.node().go).is_empty()
    }

    /// Go's name of the type, as in upstream's decoding errors (`[]v1.Container`, `map[string]string`).
    #[must_use]
    pub fn go_type(self) -> String {
        let name = self.set.str(self.node().go);
        if !name.is_empty() {
            return name.to_owned();
        }
        match (self.kind(), self.items(), self.additional()) {
            (Kind::String, ..) => self.string_type().to_owned(),
            (Kind::Integer | Kind::Number, ..) => self.number_type().to_owned(),
            (Kind::Boolean, ..) => "bool".to_owned(),
            (Kind::Array, Some(items), _) => format!("[]{}", items.go_type()),
            (Kind::Object, _, Some(value)) => format!("map[string]{}", value.go_type()),
            (Kind::Object, ..) => "map[string]interface {}".to_owned(),
            (Kind::Array | Kind::Any, ..) if self.format() == Format::IntOrString => {
                "intstr.IntOrString".to_owned()
            }
            (Kind::Array, ..) => "[]interface {}".to_owned(),
            (Kind::Any, ..) => "interface {}".to_owned(),
        }
    }

    fn string_type(self) -> &'static str {
        match self.format() {
            Format::Byte => "[]uint8",
            Format::Time => "v1.Time",
            Format::MicroTime => "v1.MicroTime",
            Format::Duration => "v1.Duration",
            Format::Quantity => "resource.Quantity",
            _ => "string",
        }
    }

    fn number_type(self) -> &'static str {
        match self.format() {
            Format::Int32 => "int32",
            Format::Uint8 => "uint8",
            Format::Uint32 => "uint32",
            Format::Uint64 => "uint64",
            Format::Double => "float64",
            _ => "int64",
        }
    }

    /// The properties in the order upstream encodes them.
    #[must_use]
    pub fn fields(self) -> impl ExactSizeIterator<Item = FieldRef<'a>> + Clone + use<'a> {
        let (start, len) = self.node().fields;
        let set = self.set;
        let range = start as usize..start as usize + usize::from(len);
        set.fields.get(range).unwrap_or_default().iter().map(move |field| FieldRef { set, field })
    }

    /// The property called `name`; names are case-sensitive.
    #[must_use]
    pub fn field(self, name: &str) -> Option<FieldRef<'a>> {
        let (start, len) = self.node().fields;
        let range = start as usize..start as usize + usize::from(len);
        let sorted = self.set.sorted.get(range.clone())?;
        let fields = self.set.fields.get(range)?;
        let at = sorted.binary_search_by(|at| self.set.str(fields[usize::from(*at)].name).cmp(name)).ok()?;
        Some(FieldRef { set: self.set, field: &fields[usize::from(sorted[at])] })
    }

    /// Whether the node declares properties.
    #[must_use]
    pub fn has_fields(self) -> bool {
        self.node().fields.1 > 0
    }

    /// The schema of the value below `name`: a property, else a map's value.
    #[must_use]
    pub fn child(self, name: &str) -> Option<Self> {
        self.field(name).map(FieldRef::schema).or_else(|| self.additional())
    }

    /// The node at a path of fields, indices and keys, such as `spec.ports[0].name`.
    #[must_use]
    pub fn at_path(self, path: &str) -> Option<Self> {
        path.split('.').filter(|step| !step.is_empty()).try_fold(self, |at, step| {
            let (name, indices) = step.split_once('[').unwrap_or((step, ""));
            let at = at.child(name)?;
            indices.split_terminator('[').try_fold(at, |at, _| at.items().or_else(|| at.additional()))
        })
    }

    /// The schema of a list's items.
    #[must_use]
    pub fn items(self) -> Option<Self> {
        self.node().items.map(|id| self.set.at(id))
    }

    /// The schema of a map's values.
    #[must_use]
    pub fn additional(self) -> Option<Self> {
        self.node().additional.map(|id| self.set.at(id))
    }

    /// Gives `visit` everything directly in `value` that this node describes, with its own schema and path: fields and
    /// map values of an object, items of a list.
    pub fn parts(self, value: &Value, path: &FieldPath, mut visit: impl FnMut(&Value, Self, &FieldPath)) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    if let Some(field) = self.field(key) {
                        visit(value, field.schema(), &path.child(key));
                    } else if let Some(values) = self.additional() {
                        visit(value, values, &path.key(key));
                    }
                }
            }
            Value::Array(list) => {
                for (at, item) in list.iter().enumerate() {
                    if let Some(items) = self.items() {
                        visit(item, items, &path.index(at));
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether `additionalProperties: true` allows any property.
    #[must_use]
    pub fn is_open(self) -> bool {
        self.node().flags.open
    }

    /// Whether the node is part of a built-in Go type.
    #[must_use]
    pub fn is_typed(self) -> bool {
        self.node().flags.typed
    }

    /// Whether a property called `name` survives decoding: declared, a map's entry, or deliberately kept.
    #[must_use]
    pub fn allows(self, name: &str) -> bool {
        let node = self.node();
        node.additional.is_some()
            || node.flags.open
            || node.flags.preserve_unknown
            || self.field(name).is_some()
    }

    /// How server-side apply merges a list.
    #[must_use]
    pub fn list_type(self) -> ListType {
        self.node().list_type
    }

    /// The key fields of a [`ListType::Map`] list.
    #[must_use]
    pub fn list_keys(self) -> impl ExactSizeIterator<Item = &'a str> + Clone + use<'a> {
        let (start, len) = self.node().keys;
        let set = self.set;
        let range = start as usize..start as usize + usize::from(len);
        set.keys.get(range).unwrap_or_default().iter().map(move |span| set.str(*span))
    }

    /// Whether server-side apply replaces the map or struct as a whole.
    #[must_use]
    pub fn is_atomic_map(self) -> bool {
        self.node().flags.atomic_map
    }

    /// Whether the map or struct is declared to be merged field by field.
    #[must_use]
    pub fn is_granular_map(self) -> bool {
        self.node().flags.granular_map
    }

    /// How a strategic merge patch treats the node.
    #[must_use]
    pub fn patch_strategy(self) -> PatchStrategy {
        self.node().patch
    }

    /// The key by which a strategic merge patch pairs list items.
    #[must_use]
    pub fn merge_key(self) -> Option<&'a str> {
        Some(self.set.str(self.node().merge_key)).filter(|key| !key.is_empty())
    }

    /// The published default.
    #[must_use]
    pub fn default(self) -> Option<&'a Value> {
        self.node().default.and_then(|at| self.set.defaults.get(at as usize))
    }

    /// What only the published documents say of this type: the values of a string, the unions of a definition.
    #[must_use]
    pub fn published(self) -> Option<Value> {
        serde_json::from_str(self.set.str(self.node().published)).ok()
    }

    /// Whether integers and strings are both allowed.
    #[must_use]
    pub fn is_int_or_string(self) -> bool {
        self.node().flags.int_or_string
    }

    /// Whether undeclared properties are kept.
    #[must_use]
    pub fn preserves_unknown(self) -> bool {
        self.node().flags.preserve_unknown
    }

    /// Whether the value is a whole object with apiVersion, kind and metadata.
    #[must_use]
    pub fn is_embedded_resource(self) -> bool {
        self.node().flags.embedded_resource
    }

    /// Whether `null` is a value.
    #[must_use]
    pub fn is_nullable(self) -> bool {
        self.node().flags.nullable
    }

    /// Validation rules.
    #[must_use]
    pub fn rules(self) -> Option<&'a Rules> {
        self.node().rules.and_then(|at| self.set.rules.get(at as usize))
    }
}

/// A handle on one property.
#[derive(Clone, Copy)]
pub struct FieldRef<'a> {
    set: &'a SchemaSet,
    field: &'a Field,
}

impl fmt::Debug for FieldRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FieldRef({}: {})", self.name(), self.schema().go_type())
    }
}

impl<'a> FieldRef<'a> {
    pub(super) const fn raw(self) -> &'a Field {
        self.field
    }

    /// The property's name in JSON.
    #[must_use]
    pub fn name(self) -> &'a str {
        self.set.str(self.field.name)
    }

    /// The schema of its value.
    #[must_use]
    pub const fn schema(self) -> SchemaRef<'a> {
        self.set.at(self.field.node)
    }

    /// Whether the schema lists it as required.
    #[must_use]
    pub const fn is_required(self) -> bool {
        self.field.required
    }

    /// Whether Go holds it behind a pointer, so that an explicit zero value is kept.
    #[must_use]
    pub const fn is_pointer(self) -> bool {
        self.field.pointer
    }

    /// When the encoder leaves it out.
    #[must_use]
    pub const fn omit(self) -> Omit {
        self.field.omit
    }

    /// Go's names of the inlined structs on the way to the field, as decoding errors show them; mostly empty.
    #[must_use]
    pub fn inlined(self) -> &'a str {
        self.set.str(self.field.inlined)
    }

    /// The protobuf number (0 for none), and the numbers of the embedded messages that carry the field, outermost
    /// first.
    #[must_use]
    pub fn protobuf(self) -> (u16, &'a [u16]) {
        let depth = self.field.via.iter().take_while(|number| **number > 0).count();
        (self.field.number, self.field.via.get(..depth).unwrap_or_default())
    }
}
