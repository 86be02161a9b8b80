//! The built-in types: the generated table, read once into a [`SchemaSet`].
//!
//! The table's notation is described in the generator (`cargo xtask schema`). All text of the set points into the
//! table, so loading copies no names.

use std::sync::LazyLock;

use copepod_api::ResourceDef;
use serde_json::Value;

use crate::node::{
    Builder, Field, Flags, Format, Kind, ListType, Node, NodeId, Omit, PatchStrategy, SchemaSet,
};

/// What all nodes of built-in types have in common.
const TYPED: Flags = Flags { typed: true, ..Flags::NONE };

/// Types, fields, numbers and attributes of every built-in kind.
const TYPES: &str = include_str!("../data/types.txt");

/// One JSON row per served resource.
const RESOURCES: &str = include_str!("../data/resources.json");

/// The types of all built-in kinds, read at first use.
#[must_use]
pub fn builtin() -> &'static SchemaSet {
    static SET: LazyLock<SchemaSet> = LazyLock::new(|| load(TYPES));
    &SET
}

/// The rows of all built-in resources that upstream serves by default.
#[must_use]
pub fn resources() -> Vec<ResourceDef> {
    serde_json::from_str(RESOURCES).expect("the generated table matches ResourceDef")
}

/// A definition's header and its field lines.
struct Block {
    model: &'static str,
    lines: Vec<&'static str>,
    range: (u32, u16),
}

/// Reads a table in the notation of [`builtin`]'s, for types that this server does not serve.
///
/// # Panics
/// A table that the generator did not write.
#[must_use]
pub fn load(text: &'static str) -> SchemaSet {
    let mut loader = Loader { builder: Builder::over(text), models: Vec::new() };
    let blocks = loader.declare(text);
    for block in &blocks {
        let fields: Vec<Field> = block.lines.iter().map(|line| loader.field(line, block.model)).collect();
        loader.builder.fill(block.range, &fields);
    }
    loader.builder.finish(None)
}

struct Loader {
    builder: Builder,
    /// Sorted by name, as the table is.
    models: Vec<(&'static str, NodeId)>,
}

impl Loader {
    /// First pass: an id and a range of fields for every definition, so that types can refer to each other.
    fn declare(&mut self, text: &'static str) -> Vec<Block> {
        let mut blocks: Vec<(&'static str, Vec<&'static str>)> = Vec::new();
        for line in text.lines() {
            match (line.strip_prefix(' '), blocks.last_mut()) {
                (Some(field), Some((_, lines))) => lines.push(field),
                _ => blocks.push((line, Vec::new())),
            }
        }
        blocks.into_iter().map(|(header, lines)| self.declare_one(header, lines)).collect()
    }

    fn declare_one(&mut self, header: &'static str, lines: Vec<&'static str>) -> Block {
        let mut words = header.split(' ');
        let model = words.next().unwrap_or_default();
        let range = self.builder.reserve(u16::try_from(lines.len()).unwrap_or(u16::MAX));
        let mut node = Node {
            kind: Kind::Object,
            model: self.builder.span(model),
            go: self.builder.span(go_name(model)),
            fields: range,
            flags: TYPED,
            ..Node::default()
        };
        let mut kind = None;
        for word in words {
            match word.split_once('=') {
                Some(("unions", unions)) => node.published = self.builder.span(unions),
                Some((_, gvk)) => kind = Some(gvk),
                None => node.flags.atomic_map |= word == "atomic",
            }
        }
        let id = self.builder.declare(node);
        if let Some(gvk) = kind {
            self.builder.kind(gvk, id);
        }
        self.models.push((model, id));
        Block { model, lines, range }
    }

    /// `<name> <number[.via[.via]][:inlined]> <flags> <type> [attributes]`
    fn field(&mut self, line: &'static str, model: &'static str) -> Field {
        let (line, default) = match line.split_once(" default=") {
            Some((line, default)) => (line, Some(default)),
            None => (line, None),
        };
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (name, number, flags, type_) = (word(), word(), word(), word());
        let (number, inlined) = number.split_once(':').unwrap_or((number, ""));
        let mut numbers = number.split('.').map(|number| number.parse().unwrap_or(0));
        let number = numbers.next().unwrap_or(0);
        let mut via = [0, 0];
        // Innermost first in the table.
        for (slot, carrier) in via.iter_mut().zip(numbers.rev()) {
            *slot = carrier;
        }
        let plain = self.type_(type_, model);
        let mut node = self.builder.copy(plain);
        for word in words {
            self.attribute(&mut node, word);
        }
        if let Some(default) = default {
            let value: Value = serde_json::from_str(default).expect("the generator writes defaults as JSON");
            node.default = Some(self.builder.default_value(value));
        }
        let unchanged = node == self.builder.copy(plain);
        Field {
            name: self.builder.span(name),
            node: if unchanged { plain } else { self.builder.intern(node) },
            number,
            via,
            inlined: self.builder.span(inlined),
            required: flags.contains('r'),
            pointer: flags.contains('p'),
            omit: match (flags.contains('z'), flags.contains('o')) {
                (true, _) => Omit::Zero,
                (false, true) => Omit::Empty,
                (false, false) => Omit::Never,
            },
        }
    }

    fn attribute(&mut self, node: &mut Node, word: &'static str) {
        match word.split_once('=').unwrap_or((word, "")) {
            ("list", "atomic") => node.list_type = ListType::Atomic,
            ("list", "set") => node.list_type = ListType::Set,
            ("list", map) => {
                node.list_type = ListType::Map;
                let keys: Vec<&str> = map.strip_prefix("map:").unwrap_or_default().split(',').collect();
                node.keys = self.builder.keys(&keys);
            }
            ("map", map) => {
                node.flags.atomic_map = map == "atomic";
                node.flags.granular_map = map == "granular";
            }
            ("patch", strategy) => node.patch = patch_strategy(strategy),
            ("key", key) => node.merge_key = self.builder.span(key),
            ("enum", values) => self.enumerate(node, values),
            _ => {}
        }
    }

    /// Says what the values of a node, or of the lists and maps in it, may be.
    fn enumerate(&mut self, node: &mut Node, values: &'static str) {
        for inner in [&mut node.items, &mut node.additional] {
            if let Some(id) = inner {
                let mut part = self.builder.copy(*id);
                self.enumerate(&mut part, values);
                *inner = Some(self.builder.intern(part));
                return;
            }
        }
        node.published = self.builder.span(values);
    }

    /// The node of a type expression in a definition of `model`'s package.
    fn type_(&mut self, expression: &'static str, model: &'static str) -> NodeId {
        if let Some(items) = expression.strip_prefix("[]") {
            let items = Some(self.type_(items, model));
            return self.builder.intern(Node { kind: Kind::Array, items, flags: TYPED, ..Node::default() });
        }
        if let Some(values) = expression.strip_prefix("{}") {
            let additional = Some(self.type_(values, model));
            return self.builder.intern(Node {
                kind: Kind::Object,
                additional,
                flags: TYPED,
                ..Node::default()
            });
        }
        if let Some((go, inner)) = expression.split_once('=') {
            let inner = self.type_(inner, model);
            let node = Node { go: self.builder.span(go), ..self.builder.copy(inner) };
            return self.builder.intern(node);
        }
        if let Some(target) = expression.strip_prefix("schemaor@") {
            let items = Some(self.definition(target));
            return self.builder.intern(Node { items, ..basic("json") });
        }
        if let Some(name) = expression.strip_prefix("@.") {
            let package = model.rsplit_once('.').map_or(model, |(package, _)| package);
            return self.definition(&format!("{package}.{name}"));
        }
        if let Some(target) = expression.strip_prefix('@') {
            return self.definition(target);
        }
        self.builder.intern(basic(expression))
    }

    fn definition(&self, model: &str) -> NodeId {
        let at = self.models.binary_search_by(|(name, _)| (*name).cmp(model));
        at.map(|at| self.models[at].1).expect("the generator writes every definition it names")
    }
}

/// `v1.Pod` of `io.k8s.api.core.v1.Pod`.
fn go_name(model: &'static str) -> &'static str {
    let mut dots = model.rmatch_indices('.').map(|(at, _)| at);
    dots.nth(1).and_then(|at| model.get(at + 1..)).unwrap_or(model)
}

fn patch_strategy(text: &str) -> PatchStrategy {
    let has = |word| text.split(',').any(|w| w == word);
    PatchStrategy { merge: has("merge"), replace: has("replace"), retain_keys: has("retainKeys") }
}

fn basic(word: &str) -> Node {
    let (kind, format) = match word {
        "string" => (Kind::String, Format::None),
        "bool" => (Kind::Boolean, Format::None),
        "int32" => (Kind::Integer, Format::Int32),
        "int64" => (Kind::Integer, Format::Int64),
        "uint8" => (Kind::Integer, Format::Uint8),
        "uint32" => (Kind::Integer, Format::Uint32),
        "uint64" => (Kind::Integer, Format::Uint64),
        "float64" => (Kind::Number, Format::Double),
        "bytes" => (Kind::String, Format::Byte),
        "time" => (Kind::String, Format::Time),
        "microtime" => (Kind::String, Format::MicroTime),
        "duration" => (Kind::String, Format::Duration),
        "quantity" => (Kind::String, Format::Quantity),
        "intorstring" => (Kind::Any, Format::IntOrString),
        "raw" => (Kind::Object, Format::Raw),
        "fields" => (Kind::Object, Format::Fields),
        _ => (Kind::Any, Format::Json),
    };
    Node { kind, format, flags: TYPED, ..Node::default() }
}

#[cfg(test)]
mod tests {
    use super::{builtin, resources};
    use crate::node::{Format, Kind, ListType, Omit};

    #[test]
    fn pods_are_described() {
        let pod = builtin().kind("", "v1", "Pod").expect("pods are built in");
        assert_eq!(pod.model(), Some("io.k8s.api.core.v1.Pod"));
        let containers = pod.child("spec").and_then(|spec| spec.child("containers")).expect("declared");
        assert_eq!(containers.kind(), Kind::Array);
        assert_eq!(containers.go_type(), "[]v1.Container");
        assert_eq!(containers.merge_key(), Some("name"));
        assert!(containers.patch_strategy().merge);
        let ports = containers.items().and_then(|item| item.child("ports")).expect("declared");
        assert_eq!(ports.list_type(), ListType::Map);
        assert_eq!(ports.list_keys().collect::<Vec<_>>(), ["containerPort", "protocol"]);
        let protocol = ports.items().and_then(|port| port.field("protocol")).expect("declared");
        assert_eq!(protocol.schema().default(), Some(&"TCP".into()));
        assert_eq!(protocol.schema().go_type(), "v1.Protocol");
        assert_eq!(protocol.protobuf(), (4, [].as_slice()));
    }

    #[test]
    fn metadata_follows_the_struct_tags() {
        let meta = builtin().model("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").expect("known");
        let created = meta.field("creationTimestamp").expect("declared");
        assert_eq!((created.omit(), created.schema().format()), (Omit::Zero, Format::Time));
        let finalizers = meta.child("finalizers").expect("declared");
        assert!(finalizers.patch_strategy().merge);
        assert!(meta.field("Name").is_none());
    }

    #[test]
    fn every_row_has_a_schema() {
        let rows = resources();
        assert!(rows.len() > 60, "{} rows", rows.len());
        for row in rows {
            assert!(builtin().model(&row.schema).is_some(), "{}", row.schema);
            assert_eq!(
                builtin().kind(&row.group, &row.version, &row.kind).and_then(|k| k.model()),
                Some(&*row.schema)
            );
        }
    }

    #[test]
    fn the_set_is_small() {
        assert!(builtin().memory() < 1 << 20, "{} bytes", builtin().memory());
    }
}
