//! Sets of field paths: the content of a managed-fields entry.

use std::{collections::BTreeMap, fmt};

use serde_json::{Map, Value};

use super::path::PathElement;

/// A set of paths, kept as a tree. An element may be a member, have children, or both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: BTreeMap<PathElement, Node>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Node {
    member: bool,
    children: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl FieldSet {
    /// The set of some paths of plain field names, such as `["metadata", "name"]`.
    #[must_use]
    pub fn of(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<PathElement> = path.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Adds a path; the empty path is no field.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else { return };
        let node = self.nodes.entry(first.clone()).or_default();
        if rest.is_empty() {
            node.member = true;
        } else {
            node.children.insert(rest);
        }
    }

    /// Whether the path itself is a member.
    #[must_use]
    pub fn has(&self, path: &[PathElement]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        self.nodes
            .get(first)
            .is_some_and(|node| if rest.is_empty() { node.member } else { node.children.has(rest) })
    }

    /// Whether there is no path.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.values().all(Node::is_empty)
    }

    /// The set below one element.
    pub(super) fn below(&self, element: &PathElement) -> Option<&Self> {
        self.nodes.get(element).map(|node| &node.children).filter(|set| !set.is_empty())
    }

    /// Whether one element is a member here.
    pub(super) fn is_member(&self, element: &PathElement) -> bool {
        self.nodes.get(element).is_some_and(|node| node.member)
    }

    /// Elements with their membership and children.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&PathElement, bool, &Self)> {
        self.nodes.iter().map(|(element, node)| (element, node.member, &node.children))
    }

    pub(super) fn put(&mut self, element: PathElement, member: bool, children: Self) {
        let node = Node { member, children };
        if !node.is_empty() {
            self.nodes.insert(element, node);
        }
    }

    /// All paths of either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        for (element, node) in &other.nodes {
            let mine = all.nodes.entry(element.clone()).or_default();
            mine.member |= node.member;
            mine.children = mine.children.union(&node.children);
        }
        all
    }

    /// The paths of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.zip(other, |mine, theirs| {
            let theirs = theirs?;
            let children = mine.children.intersection(&theirs.children);
            Some(Node { member: mine.member && theirs.member, children })
        })
    }

    /// The paths of this set that the other lacks.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.zip(other, |mine, theirs| match theirs {
            None => Some(mine.clone()),
            Some(theirs) => Some(Node {
                member: mine.member && !theirs.member,
                children: mine.children.difference(&theirs.children),
            }),
        })
    }

    /// As [`Self::difference`], but a member of the other set removes everything below it too.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        self.zip(other, |mine, theirs| match theirs {
            None => Some(mine.clone()),
            Some(theirs) if theirs.member => None,
            Some(theirs) => Some(Node {
                member: mine.member,
                children: mine.children.recursive_difference(&theirs.children),
            }),
        })
    }

    fn zip(&self, other: &Self, keep: impl Fn(&Node, Option<&Node>) -> Option<Node>) -> Self {
        let kept = self.nodes.iter().filter_map(|(element, node)| {
            let kept = keep(node, other.nodes.get(element))?;
            (!kept.is_empty()).then(|| (element.clone(), kept))
        });
        Self { nodes: kept.collect() }
    }

    /// All paths in canonical order: members of a level before what is below them.
    #[must_use]
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut all = Vec::new();
        self.collect(&mut Vec::new(), &mut all);
        all
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, all: &mut Vec<Vec<PathElement>>) {
        for (element, node) in &self.nodes {
            if node.member {
                all.push(prefix.iter().cloned().chain([element.clone()]).collect());
            }
        }
        for (element, node) in &self.nodes {
            prefix.push(element.clone());
            node.children.collect(prefix, all);
            prefix.pop();
        }
    }

    /// Parses `fieldsV1`.
    ///
    /// # Errors
    /// Anything but objects, or a key that is no path element.
    pub fn parse(value: &Value) -> Result<Self, String> {
        let Value::Object(map) = value else { return Err("expected an object".to_owned()) };
        let mut set = Self::default();
        for (key, value) in map.iter().filter(|(key, _)| *key != ".") {
            let element = PathElement::parse(key)?;
            let children = Self::parse(value)?;
            let member = value.get(".").is_some() || children.is_empty();
            set.nodes.insert(element, Node { member, children });
        }
        Ok(set)
    }

    /// The content of `fieldsV1`.
    #[must_use]
    pub fn serialize(&self) -> Value {
        let mut map = Map::new();
        for (element, node) in self.nodes.iter().filter(|(_, node)| !node.is_empty()) {
            let mut inner = node.children.serialize();
            if let (true, false, Value::Object(inner)) = (node.member, node.children.is_empty(), &mut inner) {
                inner.insert(".".to_owned(), Value::Object(Map::new()));
            }
            map.insert(element.serialize(), inner);
        }
        Value::Object(map)
    }
}

/// The text of a path, as in conflicts: `.spec.containers[name="a"].image`.
pub(crate) fn path_text(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<String> = self.paths().iter().map(|path| path_text(path)).collect();
        f.write_str(&paths.join("\n"))
    }
}
