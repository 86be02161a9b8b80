//! Building a set: interning of nodes, text and field ranges.

use std::{borrow::Cow, collections::HashMap};

use serde_json::Value;

use super::{Field, Node, NodeId, Rules, SchemaRef, SchemaSet, Span};

/// Collects nodes, then freezes into a [`SchemaSet`].
#[derive(Debug, Default)]
pub(crate) struct Builder {
    set: SchemaSet,
    shared: HashMap<Node, NodeId>,
    words: HashMap<String, Span>,
}

impl Builder {
    /// A builder whose spans point into `text`.
    pub(crate) fn over(text: &'static str) -> Self {
        Self { set: SchemaSet { text: Cow::Borrowed(text), ..SchemaSet::default() }, ..Self::default() }
    }

    /// The span of `word`, which is a slice of the borrowed text or gets appended to the owned text.
    pub(crate) fn span(&mut self, word: &str) -> Span {
        if word.is_empty() {
            return Span::default();
        }
        if let Some(span) = self.words.get(word) {
            return *span;
        }
        let len = u16::try_from(word.len()).unwrap_or(u16::MAX);
        if let Cow::Borrowed(text) = self.set.text
            && let Some(start) = (word.as_ptr() as usize).checked_sub(text.as_ptr() as usize)
            && start + word.len() <= text.len()
        {
            let span = Span { start: index(start), len };
            self.words.insert(word.to_owned(), span);
            return span;
        }
        let text = self.set.text.to_mut();
        let span = Span { start: index(text.len()), len };
        text.push_str(word);
        self.words.insert(word.to_owned(), span);
        span
    }

    /// Reserves an id for a definition whose fields come later.
    pub(crate) fn declare(&mut self, node: Node) -> NodeId {
        let id = NodeId(index(self.set.nodes.len()));
        self.set.nodes.push(node);
        id
    }

    /// A copy of a node, to be altered and interned again.
    pub(crate) fn copy(&self, id: NodeId) -> Node {
        self.set.node(id).clone()
    }

    /// The fields of a node.
    pub(crate) fn fields_of(&self, id: NodeId) -> &[Field] {
        let (start, len) = self.set.node(id).fields;
        self.set.fields.get(start as usize..start as usize + usize::from(len)).unwrap_or_default()
    }

    /// An id for an anonymous node; equal nodes share one.
    pub(crate) fn intern(&mut self, node: Node) -> NodeId {
        if let Some(id) = self.shared.get(&node) {
            return *id;
        }
        let id = self.declare(node.clone());
        self.shared.insert(node, id);
        id
    }

    /// Copies a node of another set with everything below it; the tree must not be recursive.
    pub(crate) fn import(&mut self, from: SchemaRef<'_>) -> NodeId {
        let mut node = from.node().clone();
        let set = from.set();
        node.model = self.span(set.str(node.model));
        node.go = self.span(set.str(node.go));
        node.merge_key = self.span(set.str(node.merge_key));
        node.published = self.span(set.str(node.published));
        let keys: Vec<&str> = from.list_keys().collect();
        node.keys = if keys.is_empty() { (0, 0) } else { self.keys(&keys) };
        node.items = from.items().map(|items| self.import(items));
        node.additional = from.additional().map(|values| self.import(values));
        node.default = from.default().map(|value| self.default_value(value.clone()));
        node.rules = None;
        let fields: Vec<Field> = from
            .fields()
            .map(|field| {
                let node = self.import(field.schema());
                Field {
                    name: self.span(field.name()),
                    node,
                    inlined: self.span(field.inlined()),
                    ..*field.raw()
                }
            })
            .collect();
        node.fields = if fields.is_empty() { (0, 0) } else { self.fields(&fields) };
        self.intern(node)
    }

    /// Stores the fields of one object and returns their range.
    pub(crate) fn fields(&mut self, fields: &[Field]) -> (u32, u16) {
        let range = self.reserve(u16::try_from(fields.len()).unwrap_or(u16::MAX));
        self.fill(range, fields);
        range
    }

    /// Reserves a range for fields that [`Self::fill`] supplies.
    pub(crate) fn reserve(&mut self, len: u16) -> (u32, u16) {
        let range = (index(self.set.fields.len()), len);
        let blank = Field {
            name: Span::default(),
            node: NodeId(0),
            number: 0,
            via: [0, 0],
            inlined: Span::default(),
            required: false,
            pointer: false,
            omit: super::Omit::Empty,
        };
        self.set.fields.extend(std::iter::repeat_n(blank, usize::from(len)));
        self.set.sorted.extend(0..len);
        range
    }

    /// Supplies the fields of a reserved range.
    pub(crate) fn fill(&mut self, range: (u32, u16), fields: &[Field]) {
        let start = range.0 as usize;
        let mut order: Vec<u16> = (0..range.1).collect();
        order.sort_by(|a, b| {
            let name = |at: &u16| self.set.str(fields[usize::from(*at)].name);
            name(a).cmp(name(b))
        });
        for (at, field) in fields.iter().enumerate() {
            self.set.fields[start + at] = *field;
            self.set.sorted[start + at] = order[at];
        }
    }

    /// Stores list-map keys.
    pub(crate) fn keys(&mut self, keys: &[&str]) -> (u32, u8) {
        let spans: Vec<Span> = keys.iter().map(|key| self.span(key)).collect();
        let known = self.set.keys.windows(spans.len().max(1)).position(|window| window == spans);
        let start = known.unwrap_or(self.set.keys.len());
        if known.is_none() {
            self.set.keys.extend(&spans);
        }
        (index(start), u8::try_from(spans.len()).unwrap_or(u8::MAX))
    }

    /// Stores a default value.
    pub(crate) fn default_value(&mut self, value: Value) -> u32 {
        let known = self.set.defaults.iter().position(|other| *other == value);
        index(known.unwrap_or_else(|| {
            self.set.defaults.push(value);
            self.set.defaults.len() - 1
        }))
    }

    /// Stores validation rules; none for the empty set of rules.
    pub(crate) fn rules(&mut self, rules: Rules) -> Option<u32> {
        if rules == Rules::default() {
            return None;
        }
        self.set.rules.push(rules);
        Some(index(self.set.rules.len() - 1))
    }

    /// Names a definition as the schema of a kind.
    pub(crate) fn kind(&mut self, gvk: &str, id: NodeId) {
        self.set.kinds.insert(gvk.to_owned(), id);
    }

    /// Freezes the set. `root` is the entry node of a set made from one schema.
    pub(crate) fn finish(mut self, root: Option<NodeId>) -> SchemaSet {
        let mut models: Vec<NodeId> = (0..index(self.set.nodes.len()))
            .map(NodeId)
            .filter(|id| {
                let node = self.set.node(*id);
                node.model.len > 0 && !self.shared.contains_key(node)
            })
            .collect();
        models
            .sort_by(|a, b| self.set.str(self.set.node(*a).model).cmp(self.set.str(self.set.node(*b).model)));
        self.set.models = models;
        self.set.root = root;
        self.set.nodes.shrink_to_fit();
        self.set.fields.shrink_to_fit();
        self.set.sorted.shrink_to_fit();
        self.set
    }
}

/// Arena positions fit 32 bits by far; a table that does not is a broken table.
fn index(position: usize) -> u32 {
    u32::try_from(position).expect("a schema set holds fewer than 2^32 entries")
}
