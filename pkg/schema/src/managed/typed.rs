//! Walks over one value: validation against the schema, its field set, removal of fields.

use serde_json::{Map, Value};

use super::{
    atom::{Atom, List, MapType, Relation, Scalar, Type},
    fieldset::FieldSet,
    path::PathElement,
};

/// An error with the path it occurred at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TypedError {
    path: String,
    text: String,
}

impl TypedError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { path: String::new(), text: text.into() }
    }

    pub(super) fn under(self, element: &PathElement) -> Self {
        Self { path: format!("{element}{}", self.path), ..self }
    }
}

/// All errors as upstream joins them.
pub(super) fn error_text(errors: &[TypedError]) -> String {
    let one = |error: &TypedError| {
        if error.path.is_empty() { error.text.clone() } else { format!("{}: {}", error.path, error.text) }
    };
    match errors {
        [error] => one(error),
        errors => {
            let lines: Vec<String> = errors.iter().map(|error| format!("  {}", one(error))).collect();
            format!("errors:\n{}", lines.join("\n"))
        }
    }
}

/// The element that identifies an item of a list that is not atomic.
pub(super) fn item_element(list: &List<'_>, item: &Value) -> Result<PathElement, String> {
    let error = |text: &str| Err(text.to_owned());
    if list.relation == Relation::Atomic {
        return error("invalid indexing of non-associative list");
    }
    if list.relation == Relation::Set {
        return match item {
            Value::Object(_) => error("associative list without keys has an element that's a map type"),
            Value::Array(_) => error("not supported: associative list with lists as elements"),
            Value::Null => error("associative list without keys has an element that's an explicit null"),
            scalar => Ok(PathElement::Value(scalar.clone())),
        };
    }
    let map = match item {
        Value::Object(map) => map,
        Value::Null => return error("associative list with keys may not have a null element"),
        _ => return error("associative list with keys may not have non-map elements"),
    };
    let keys = list.keys();
    let mut fields: Vec<(String, Value)> = keys
        .iter()
        .filter_map(|key| {
            let value = map.get(*key).or_else(|| list.key_default(key))?;
            Some(((*key).to_owned(), value.clone()))
        })
        .collect();
    if fields.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] \
             (and doesn't have default values for any key fields)",
            keys.join(" ")
        ));
    }
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(PathElement::Key(fields))
}

pub(super) fn check_scalar(scalar: Scalar, value: Option<&Value>, prefix: &str) -> Option<TypedError> {
    let value = value.filter(|value| !value.is_null())?;
    let text = |expected: &str| {
        Some(TypedError::new(format!("{prefix}expected {expected}, got {}", go_value(value))))
    };
    match scalar {
        Scalar::Numeric if !value.is_number() => {
            Some(TypedError::new(format!("{prefix}expected numeric (int or float), got {}", go_type(value))))
        }
        Scalar::String if !value.is_string() => Some(TypedError::new(format!(
            "{prefix}expected string, got &value.valueUnstructured{{Value:{}}}",
            go_value(value)
        ))),
        Scalar::Boolean if !value.is_boolean() => text("boolean"),
        Scalar::Any if value.is_object() || value.is_array() => text("any scalar"),
        _ => None,
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn go_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Checks a value against the schema; duplicates in sets and keyed lists are errors unless allowed.
pub(super) fn validate(value: &Value, type_: Type<'_>, duplicates: bool) -> Vec<TypedError> {
    match (type_.atom(Some(value)), value) {
        (Atom::Scalar(scalar), _) => check_scalar(scalar, Some(value), "").into_iter().collect(),
        (_, Value::Null) => Vec::new(),
        (Atom::List(list), Value::Array(items)) => validate_list(&list, items, duplicates),
        (Atom::Map(map), Value::Object(entries)) => validate_map(&map, entries, duplicates),
        (Atom::List(_), other) => vec![TypedError::new(format!("expected list, got {}", shown(other)))],
        (Atom::Map(_), other) => vec![TypedError::new(format!("expected map, got {}", shown(other)))],
    }
}

/// Go prints the wrapper of the value.
fn shown(value: &Value) -> String {
    format!("&{{{}}}", crate::patch::go_text(value))
}

fn validate_list(list: &List<'_>, items: &[Value], duplicates: bool) -> Vec<TypedError> {
    let mut errors = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        let element = if list.relation == Relation::Atomic {
            PathElement::Index(i64::try_from(at).unwrap_or(i64::MAX))
        } else {
            match item_element(list, item) {
                Ok(element) => element,
                Err(text) => {
                    errors.push(TypedError::new(format!("element {at}: {text}")));
                    return errors;
                }
            }
        };
        if list.relation != Relation::Atomic && !seen.insert(element.clone()) && !duplicates {
            errors.push(TypedError::new(format!("duplicate entries for key {element}")));
        }
        errors.extend(validate(item, list.items, duplicates).into_iter().map(|error| error.under(&element)));
    }
    errors
}

fn validate_map(map: &MapType<'_>, entries: &Map<String, Value>, duplicates: bool) -> Vec<TypedError> {
    let mut errors = Vec::new();
    for (key, value) in entries {
        let element = PathElement::field(key);
        let Some(type_) = map.child(key) else {
            errors.push(TypedError::new("field not declared in schema").under(&element));
            return errors;
        };
        errors.extend(validate(value, type_, duplicates).into_iter().map(|error| error.under(&element)));
    }
    errors
}

/// All fields that a value sets.
pub(super) fn field_set(value: &Value, type_: Type<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    collect(value, type_, &mut Vec::new(), &mut set);
    set
}

fn collect(value: &Value, type_: Type<'_>, path: &mut Vec<PathElement>, set: &mut FieldSet) {
    match (type_.atom(Some(value)), value) {
        (Atom::Scalar(_), _) => set.insert(path),
        (Atom::List(list), _) if list.relation == Relation::Atomic => set.insert(path),
        (Atom::Map(map), _) if map.atomic => set.insert(path),
        (Atom::List(list), Value::Array(items)) => collect_list(&list, items, path, set),
        (Atom::Map(map), Value::Object(entries)) => {
            for (key, value) in entries {
                path.push(PathElement::field(key));
                collect(value, map.child(key).unwrap_or(Type::Deduced), path, set);
                let leaf = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if leaf || !map.declares(key) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        _ => {}
    }
}

fn collect_list(list: &List<'_>, items: &[Value], path: &mut Vec<PathElement>, set: &mut FieldSet) {
    let elements: Vec<Option<PathElement>> = items.iter().map(|item| item_element(list, item).ok()).collect();
    for (item, element) in items.iter().zip(&elements) {
        let Some(element) = element else { continue };
        let twice = elements.iter().filter(|other| other.as_ref() == Some(element)).count() > 1;
        path.push(element.clone());
        if !twice {
            collect(item, list.items, path, set);
        }
        set.insert(path);
        path.pop();
    }
}

/// The value without the fields of the set. Emptied lists and maps become null.
pub(super) fn remove(value: &Value, type_: Type<'_>, gone: &FieldSet) -> Value {
    match (type_.atom(Some(value)), value) {
        (Atom::List(list), Value::Array(items)) if list.relation != Relation::Atomic => {
            let kept: Vec<Value> = items
                .iter()
                .filter_map(|item| {
                    let Ok(element) = item_element(&list, item) else { return Some(item.clone()) };
                    if gone.is_member(&element) {
                        return None;
                    }
                    Some(
                        gone.below(&element)
                            .map_or_else(|| item.clone(), |below| remove(item, list.items, below)),
                    )
                })
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        (Atom::Map(map), Value::Object(entries)) if !map.atomic => {
            let kept: Map<String, Value> = entries
                .iter()
                .filter_map(|(key, value)| {
                    let element = PathElement::field(key);
                    if gone.is_member(&element) {
                        return None;
                    }
                    let type_ = map.child(key).unwrap_or(Type::Deduced);
                    let kept = gone
                        .below(&element)
                        .map_or_else(|| value.clone(), |below| remove(value, type_, below));
                    Some((key.clone(), kept))
                })
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (Atom::Scalar(_), value) => value.clone(),
        _ => Value::Null,
    }
}

/// The set with all declared fields on the way to its members added as members.
pub(super) fn with_named_fields(set: &FieldSet, type_: Option<Type<'_>>) -> FieldSet {
    let map = type_.and_then(|type_| match type_.atom(None) {
        Atom::Map(map) => Some(map),
        _ => None,
    });
    let list = type_.and_then(|type_| match type_.atom(None) {
        Atom::List(list) => Some(list),
        _ => None,
    });
    let mut out = FieldSet::default();
    for (element, member, children) in set.entries() {
        let (named, child) = match (element, map, list) {
            (PathElement::Field(name), Some(map), _) => (map.declares(name), map.child(name)),
            (PathElement::Key(_), _, Some(list)) => (false, Some(list.items)),
            _ => (false, None),
        };
        let member = member || (named && !children.is_empty());
        out.put(element.clone(), member, with_named_fields(children, child));
    }
    out
}
