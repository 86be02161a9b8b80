//! Walks over two values: merging a configuration into the live object, and comparing two objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    atom::{Atom, List, MapType, Relation, Type},
    fieldset::FieldSet,
    path::{self, PathElement},
    typed::{TypedError, check_scalar, item_element},
};

type Errors = Vec<TypedError>;

/// The live object with everything the configuration sets.
pub(super) fn merge(left: &Value, right: &Value, type_: Type<'_>) -> Result<Option<Value>, Errors> {
    let mut errors = Vec::new();
    let merged = merge_value(Some(left), Some(right), type_, &mut errors);
    if errors.is_empty() { Ok(merged) } else { Err(errors) }
}

/// Which of two values decides how a position is handled.
fn atoms<'s>(left: Option<&Value>, right: Option<&Value>, type_: Type<'s>) -> (Option<Atom<'s>>, Atom<'s>) {
    let (of_left, of_right) = (type_.atom(left), type_.atom(right));
    match (left, right) {
        (_, None) => (None, of_left),
        (None, _) => (None, of_right),
        _ if of_left == of_right => (None, of_right),
        _ => (Some(of_left), of_right),
    }
}

fn merge_value(
    left: Option<&Value>,
    right: Option<&Value>,
    type_: Type<'_>,
    errors: &mut Errors,
) -> Option<Value> {
    let (also, atom) = atoms(left, right, type_);
    if let Some(also) = also {
        // The result of the left type is dropped, its errors are not.
        merge_atom(left, right, also, errors);
    }
    merge_atom(left, right, atom, errors)
}

fn merge_atom(
    left: Option<&Value>,
    right: Option<&Value>,
    atom: Atom<'_>,
    errors: &mut Errors,
) -> Option<Value> {
    let leaf = || right.or(left).cloned();
    match atom {
        Atom::Scalar(scalar) => {
            let wrong = (check_scalar(scalar, left, "lhs: "), check_scalar(scalar, right, "rhs: "));
            if let (Some(l), Some(r)) = wrong {
                errors.extend([l, r]);
                return None;
            }
            leaf()
        }
        Atom::List(list) => {
            let (l, r) = (left.and_then(Value::as_array), right.and_then(Value::as_array));
            let empty = l.is_none_or(Vec::is_empty) && r.is_none_or(Vec::is_empty);
            if list.relation == Relation::Atomic || empty {
                return leaf();
            }
            merge_list(&list, l.map_or(&[], Vec::as_slice), r.map_or(&[], Vec::as_slice), errors)
        }
        Atom::Map(map) => {
            let (l, r) = (left.and_then(Value::as_object), right.and_then(Value::as_object));
            let empty = l.is_none_or(Map::is_empty) && r.is_none_or(Map::is_empty);
            if map.atomic || empty {
                return leaf();
            }
            merge_map(&map, l, r, errors)
        }
    }
}

fn keys<'v>(
    left: Option<&'v Map<String, Value>>,
    right: Option<&'v Map<String, Value>>,
) -> BTreeSet<&'v String> {
    left.into_iter().chain(right).flat_map(Map::keys).collect()
}

fn merge_map(
    map: &MapType<'_>,
    left: Option<&Map<String, Value>>,
    right: Option<&Map<String, Value>>,
    errors: &mut Errors,
) -> Option<Value> {
    let mut out = Map::new();
    for key in keys(left, right) {
        let (l, r) = (left.and_then(|map| map.get(key)), right.and_then(|map| map.get(key)));
        let mut inner = Vec::new();
        let merged = merge_value(l, r, map.child(key).unwrap_or(Type::Deduced), &mut inner);
        errors.extend(inner.into_iter().map(|error| error.under(&PathElement::field(key))));
        if let Some(merged) = merged {
            out.insert(key.clone(), merged);
        }
    }
    (!out.is_empty()).then_some(Value::Object(out))
}

/// The items of one side, by identity and in order.
struct Indexed<'v> {
    order: Vec<(PathElement, &'v Value)>,
    /// An item that occurs twice has no single value.
    values: BTreeMap<PathElement, Option<&'v Value>>,
}

fn index_items<'v>(
    list: &List<'_>,
    items: &'v [Value],
    duplicates: bool,
    errors: &mut Errors,
) -> Indexed<'v> {
    let mut indexed = Indexed { order: Vec::new(), values: BTreeMap::new() };
    for (at, item) in items.iter().enumerate() {
        match item_element(list, item) {
            Err(text) => errors.push(TypedError::new(format!("element {at}: {text}"))),
            Ok(element) => {
                let known = indexed.values.contains_key(&element);
                if known && !duplicates {
                    errors.push(TypedError::new(format!("duplicate entries for key {element}")));
                    continue;
                }
                indexed.values.insert(element.clone(), (!known).then_some(item));
                indexed.order.push((element, item));
            }
        }
    }
    indexed
}

/// Interleaves two keyed lists: the order of the right wins among what it names, all others keep their neighbours.
fn merge_list(list: &List<'_>, left: &[Value], right: &[Value], errors: &mut Errors) -> Option<Value> {
    let before = errors.len();
    let rhs = index_items(list, right, false, errors);
    let lhs = index_items(list, left, true, errors);
    if errors.len() > before {
        return None;
    }
    let mut shared = rhs.order.iter().map(|(element, _)| element).filter(|e| lhs.values.contains_key(*e));
    let mut next_shared = shared.next();
    let mut merged = BTreeSet::new();
    let mut out = Vec::with_capacity(left.len().max(right.len()));
    let (mut l, mut r) = (0, 0);
    while l < lhs.order.len() || r < rhs.order.len() {
        if let (Some((le, _)), Some((re, _))) = (lhs.order.get(l), rhs.order.get(r)) {
            if le == re {
                merged.insert(le);
                out.extend(merge_item(list, le, &lhs, &rhs, errors));
                l += 1;
                r += 1;
                next_shared = shared.next();
                continue;
            }
            if rhs.values.contains_key(le) && next_shared.is_some_and(|next| next != le) {
                l += 1;
                continue;
            }
        }
        if let Some((le, item)) = lhs.order.get(l) {
            if !rhs.values.contains_key(le) {
                out.extend(merge_one(list, le, Some(item), None, errors));
                l += 1;
                continue;
            }
            if merged.contains(le) {
                l += 1;
            }
        }
        if let Some((re, _)) = rhs.order.get(r) {
            merged.insert(re);
            out.extend(merge_item(list, re, &lhs, &rhs, errors));
            r += 1;
            if next_shared == Some(re) {
                next_shared = shared.next();
            }
        }
    }
    (!out.is_empty()).then_some(Value::Array(out))
}

fn merge_item(
    list: &List<'_>,
    element: &PathElement,
    lhs: &Indexed<'_>,
    rhs: &Indexed<'_>,
    errors: &mut Errors,
) -> Option<Value> {
    // A duplicate on the left counts as null there.
    let left = lhs.values.get(element).map(|value| value.unwrap_or(&Value::Null));
    let right = rhs.values.get(element).copied().flatten();
    merge_one(list, element, left, right, errors)
}

fn merge_one(
    list: &List<'_>,
    element: &PathElement,
    left: Option<&Value>,
    right: Option<&Value>,
    errors: &mut Errors,
) -> Option<Value> {
    let mut inner = Vec::new();
    let merged = merge_value(left, right, list.items, &mut inner);
    errors.extend(inner.into_iter().map(|error| error.under(element)));
    merged
}

/// What changed between two objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Comparison {
    /// Without the fields of a set and everything below them.
    pub(super) fn without(&self, ignored: &FieldSet) -> Self {
        Self {
            added: self.added.recursive_difference(ignored),
            modified: self.modified.recursive_difference(ignored),
            removed: self.removed.recursive_difference(ignored),
        }
    }
}

/// Compares two objects field by field.
pub(super) fn compare(left: &Value, right: &Value, type_: Type<'_>) -> Result<Comparison, Errors> {
    let mut walk = Compare { path: Vec::new(), found: Comparison::default(), errors: Vec::new() };
    walk.value(Some(left), Some(right), type_);
    if walk.errors.is_empty() { Ok(walk.found) } else { Err(walk.errors) }
}

struct Compare {
    path: Vec<PathElement>,
    found: Comparison,
    errors: Errors,
}

impl Compare {
    fn value(&mut self, left: Option<&Value>, right: Option<&Value>, type_: Type<'_>) {
        let (also, atom) = atoms(left, right, type_);
        if let Some(also) = also {
            self.atom(left, right, also);
        }
        let leaf = self.atom(left, right, atom);
        match (left, right) {
            (None, Some(_)) if !leaf => self.found.added.insert(&self.path),
            (Some(_), None) if !leaf => self.found.removed.insert(&self.path),
            _ => {}
        }
    }

    /// Returns whether the position was compared as a whole.
    fn atom(&mut self, left: Option<&Value>, right: Option<&Value>, atom: Atom<'_>) -> bool {
        match atom {
            Atom::Scalar(scalar) => {
                let wrong = (check_scalar(scalar, left, "lhs: "), check_scalar(scalar, right, "rhs: "));
                if let (Some(l), Some(r)) = wrong {
                    self.errors.extend([l, r]);
                    return false;
                }
                self.leaf(left, right)
            }
            Atom::List(list) => {
                let (l, r) = (left.and_then(Value::as_array), right.and_then(Value::as_array));
                let empty = l.is_none_or(Vec::is_empty) && r.is_none_or(Vec::is_empty);
                if list.relation == Relation::Atomic || empty {
                    return self.leaf(left, right);
                }
                self.list(&list, l.map_or(&[], Vec::as_slice), r.map_or(&[], Vec::as_slice));
                false
            }
            Atom::Map(map) => {
                let (l, r) = (left.and_then(Value::as_object), right.and_then(Value::as_object));
                let empty = l.is_none_or(Map::is_empty) && r.is_none_or(Map::is_empty);
                if map.atomic || empty {
                    return self.leaf(left, right);
                }
                for key in keys(l, r) {
                    self.path.push(PathElement::field(key));
                    let (l, r) = (l.and_then(|map| map.get(key)), r.and_then(|map| map.get(key)));
                    self.value(l, r, map.child(key).unwrap_or(Type::Deduced));
                    self.path.pop();
                }
                false
            }
        }
    }

    fn leaf(&mut self, left: Option<&Value>, right: Option<&Value>) -> bool {
        match (left, right) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(l), Some(r)) if !path::equal(l, r) => self.found.modified.insert(&self.path),
            _ => {}
        }
        true
    }

    fn list(&mut self, list: &List<'_>, left: &[Value], right: &[Value]) {
        let l = self.group(list, left);
        let r = self.group(list, right);
        let elements: BTreeSet<&PathElement> = l.keys().chain(r.keys()).collect();
        let none = Vec::new();
        for element in elements {
            let (lv, rv) = (l.get(element).unwrap_or(&none), r.get(element).unwrap_or(&none));
            self.path.push(element.clone());
            match (lv.as_slice(), rv.as_slice()) {
                ([] | [_], [] | [_]) => self.value(lv.first().copied(), rv.first().copied(), list.items),
                ([_, _, ..], [_, _, ..]) => {
                    let same = lv.len() == rv.len() && lv.iter().zip(rv).all(|(a, b)| path::equal(a, b));
                    if !same {
                        self.found.modified.insert(&self.path);
                    }
                }
                ([_, _, ..], _) => {
                    if let Some(first) = rv.first() {
                        self.value(None, Some(first), list.items);
                    }
                    self.found.removed.insert(&self.path);
                }
                (_, [_, _, ..]) => {
                    if let Some(first) = lv.first() {
                        self.value(Some(first), None, list.items);
                    }
                    self.found.added.insert(&self.path);
                }
            }
            self.path.pop();
        }
    }

    fn group<'v>(&mut self, list: &List<'_>, items: &'v [Value]) -> BTreeMap<PathElement, Vec<&'v Value>> {
        let mut groups: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
        for (at, item) in items.iter().enumerate() {
            match item_element(list, item) {
                Ok(element) => groups.entry(element).or_default().push(item),
                Err(text) => self.errors.push(TypedError::new(format!("element {at}: {text}"))),
            }
        }
        groups
    }
}
