//! Validation of custom resources against their structural schema, with upstream's error texts.
//!
//! Rules in CEL (`x-kubernetes-validations`) are not evaluated here; [`crate::node::Rules`] hands them on.

use copepod_api::{FieldError, FieldErrors, FieldPath};
use serde_json::{Map, Value};

use crate::{
    managed::value_equal,
    node::{Kind, ListType, Rules, SchemaRef},
};

mod formats;

pub(crate) use formats::checked_format;

/// All violations of `value`, whose place is `path` (the root path for a whole object). Their texts name fields as seen
/// from the value.
#[must_use]
pub fn validate(value: &Value, schema: SchemaRef<'_>, path: &FieldPath) -> FieldErrors {
    let mut errors = Vec::new();
    node((value, None), schema, &FieldPath::root(), &mut errors);
    unique(value, schema, &FieldPath::root(), &mut errors);
    below(path, errors)
}

fn below(path: &FieldPath, mut errors: FieldErrors) -> FieldErrors {
    errors.iter_mut().for_each(|error| error.field = path.join(&error.field));
    errors
}

/// As [`validate`], but what did not change is not judged again: an object that became invalid with a new schema can
/// still be updated elsewhere (upstream's ratcheting).
#[must_use]
pub fn validate_update(value: &Value, old: &Value, schema: SchemaRef<'_>, path: &FieldPath) -> FieldErrors {
    let root = FieldPath::root();
    let mut errors = Vec::new();
    node((value, Some(old)), schema, &root, &mut errors);
    let mut repeated = Vec::new();
    unique(value, schema, &root, &mut repeated);
    if !repeated.is_empty() {
        let mut before = Vec::new();
        unique(old, schema, &root, &mut before);
        if before.is_empty() {
            errors.extend(repeated);
        }
    }
    below(path, errors)
}

/// Judges a value, beside what it was before.
fn node(
    (value, old): (&Value, Option<&Value>),
    schema: SchemaRef<'_>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    if old.is_some_and(|old| value_equal(old, value)) {
        return;
    }
    if !schema.is_typed() {
        check_type(value, schema, path, errors);
    }
    if let Some(rules) = schema.rules() {
        if !value.is_null() {
            junctors(value, schema, rules, path, errors);
            match value {
                Value::String(text) => string(text, rules, path, errors),
                Value::Number(_) => {
                    in_range(value, schema, rules, path, errors);
                    number(value, rules, path, errors);
                }
                Value::Array(list) => count_items(list, rules, path, errors),
                Value::Object(map) => properties(map, rules, path, errors),
                _ => {}
            }
        }
        enumeration(value, schema, rules, path, errors);
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if let Some(child) = schema.child(key) {
                    node((value, old.and_then(|old| old.get(key))), child, &path.child(key), errors);
                }
            }
            for name in schema.rules().map(|rules| rules.required.as_slice()).unwrap_or_default() {
                if !map.contains_key(name) {
                    errors.push(FieldError::required(&path.child(name), ""));
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.items() {
                for (at, item) in list.iter().enumerate() {
                    node((item, same_item(item, old, schema)), items, &path.index(at), errors);
                }
            }
        }
        _ => {}
    }
}

/// What an item of a keyed list was before; items of other lists have no identity.
fn same_item<'v>(item: &Value, old: Option<&'v Value>, schema: SchemaRef<'_>) -> Option<&'v Value> {
    let old = old.and_then(Value::as_array).filter(|_| schema.list_type() == ListType::Map)?;
    old.iter().find(|other| schema.list_keys().all(|key| other.get(key) == item.get(key)))
}

/// The name of a JSON value's type in OpenAPI.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn check_type(value: &Value, schema: SchemaRef<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    let given = type_of(value);
    let wanted = if schema.is_int_or_string() { "integer,string" } else { schema.kind().name() };
    let whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
    let fits = match (schema.kind(), value) {
        _ if wanted.is_empty() => true,
        (_, Value::Null) => schema.is_nullable(),
        _ if schema.is_int_or_string() => value.is_string() || (value.is_number() && whole),
        (Kind::Integer, Value::Number(_)) => whole,
        (Kind::Number, Value::Number(_)) => true,
        (kind, _) => kind.name() == given,
    };
    if !fits {
        let detail = format!("{} in body must be of type {wanted}: {given:?}", path.as_str());
        errors.push(FieldError::type_invalid(path, given, detail));
    }
}

fn invalid(path: &FieldPath, value: impl Into<Value>, text: &str) -> FieldError {
    FieldError::invalid(path, value, format!("{} in body {text}", path.as_str()))
}

/// The first of what is wrong with length and pattern, as upstream has it, and the format.
fn string(text: &str, rules: &Rules, path: &FieldPath, errors: &mut FieldErrors) {
    let length = text.chars().count() as u64;
    if let Some(max) = rules.max_length.filter(|max| length > *max) {
        errors.push(FieldError::too_long(path, usize::try_from(max).unwrap_or(usize::MAX)));
    } else if let Some(min) = rules.min_length.filter(|min| length < *min) {
        errors.push(invalid(path, text, &format!("should be at least {min} chars long")));
    } else if let Some(pattern) =
        rules.pattern.as_ref().filter(|pattern| pattern.matches(text) == Some(false))
    {
        errors.push(invalid(path, text, &format!("should match '{}'", pattern.text())));
    }
    if let Some(format) = rules.format.as_ref().filter(|format| !formats::holds(format, text)) {
        errors.push(FieldError::type_invalid(
            path,
            text,
            format!("{} in body must be of type {format}: {text:?}", path.as_str()),
        ));
    }
}

/// A bound as Go prints a float.
fn bound(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e21 { format!("{value:.0}") } else { value.to_string() }
}

fn number(value: &Value, rules: &Rules, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(given) = value.as_f64() else { return };
    if let Some((max, exclusive)) = rules.maximum
        && (given > max || (exclusive && given >= max))
    {
        let or_equal = if exclusive { "" } else { " or equal to" };
        errors.push(invalid(path, value.clone(), &format!("should be less than{or_equal} {}", bound(max))));
    }
    if let Some((min, exclusive)) = rules.minimum
        && (given < min || (exclusive && given <= min))
    {
        let or_equal = if exclusive { "" } else { " or equal to" };
        errors.push(invalid(
            path,
            value.clone(),
            &format!("should be greater than{or_equal} {}", bound(min)),
        ));
    }
    if let Some(factor) = rules.multiple_of {
        multiple_of(value, given, factor, path, errors);
    }
}

/// Of integers only the whole part of the factor counts, as upstream has it.
fn multiple_of(value: &Value, given: f64, factor: f64, path: &FieldPath, errors: &mut FieldErrors) {
    let factor = if value.is_f64() { factor } else { factor.trunc() };
    if factor <= 0.0 {
        let name = path.as_str();
        let text = format!("factor MultipleOf declared for {name} must be positive: {}", bound(factor));
        errors.push(FieldError::invalid(path, 0, text));
    } else if (given / factor).fract() != 0.0 {
        errors.push(invalid(path, value.clone(), &format!("should be a multiple of {}", bound(factor))));
    }
}

/// Whether a number fits the type and format of its field; the error names no field.
fn in_range(value: &Value, schema: SchemaRef<'_>, rules: &Rules, path: &FieldPath, errors: &mut FieldErrors) {
    if schema.kind() != Kind::Integer {
        return;
    }
    let format = rules.format.as_deref();
    let whole = value.as_i64().or_else(|| {
        let float = value.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 9e15)?;
        format!("{float:.0}").parse().ok()
    });
    let fits = whole.is_some_and(|n| format != Some("int32") || i32::try_from(n).is_ok());
    if !fits {
        let format = format.map_or_else(|| "(default format)".to_owned(), |f| format!("with format {f}"));
        let text = format!("Checked value must be of type integer {format} in {}", path.as_str());
        errors.push(FieldError::invalid(&FieldPath::root(), "", text));
    }
}

fn too_many(path: &FieldPath, count: usize, max: Option<u64>) -> Option<FieldError> {
    let max = usize::try_from(max?).ok()?;
    (count > max).then(|| FieldError::too_many(path, count, max))
}

fn count_items(list: &[Value], rules: &Rules, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(min) = rules.min_items.filter(|min| (list.len() as u64) < *min) {
        errors.push(invalid(path, list.len(), &format!("should have at least {min} items")));
    }
    errors.extend(too_many(path, list.len(), rules.max_items));
}

fn properties(map: &Map<String, Value>, rules: &Rules, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(min) = rules.min_properties.filter(|min| (map.len() as u64) < *min) {
        errors.push(invalid(path, map.len(), &format!("should have at least {min} properties")));
    }
    errors.extend(too_many(path, map.len(), rules.max_properties));
}

fn enumeration(
    value: &Value,
    schema: SchemaRef<'_>,
    rules: &Rules,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let listed = rules.enumeration.iter().any(|allowed| value_equal(allowed, value));
    if rules.enumeration.is_empty() || listed || (value.is_null() && schema.is_nullable()) {
        return;
    }
    let supported: Vec<String> =
        rules.enumeration.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
    let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
    errors.push(FieldError::not_supported(path, value.clone(), &supported));
}

fn junctors(value: &Value, schema: SchemaRef<'_>, rules: &Rules, path: &FieldPath, errors: &mut FieldErrors) {
    let set = schema.set();
    let results = |ids: &[crate::node::NodeId]| -> Vec<FieldErrors> {
        ids.iter()
            .map(|id| {
                let mut errors = Vec::new();
                node((value, None), set.at(*id), path, &mut errors);
                errors
            })
            .collect()
    };
    let mut complain = |text: String| errors.push(FieldError::invalid(&FieldPath::root(), "", text));
    let name = path.as_str();
    let any = results(&rules.logic.any_of);
    let mut details = Vec::new();
    if !any.is_empty() && any.iter().all(|errors| !errors.is_empty()) {
        complain(format!("{name:?} must validate at least one schema (anyOf)"));
        details.extend(any.into_iter().min_by_key(Vec::len).unwrap_or_default());
    }
    let one = results(&rules.logic.one_of);
    let valid = one.iter().filter(|errors| errors.is_empty()).count();
    if !one.is_empty() && valid != 1 {
        let found = if valid == 0 {
            "Found none valid".to_owned()
        } else {
            format!("Found {valid} valid alternatives")
        };
        complain(format!("{name:?} must validate one and only one schema (oneOf). {found}"));
        if valid == 0 {
            details.extend(one.into_iter().min_by_key(Vec::len).unwrap_or_default());
        }
    }
    let all = results(&rules.logic.all_of);
    let failed = all.iter().filter(|errors| !errors.is_empty()).count();
    if failed > 0 {
        let none = if failed == all.len() { ". None validated" } else { "" };
        complain(format!("{name:?} must validate all the schemas (allOf){none}"));
        details.extend(all.into_iter().flatten());
    }
    if let Some(not) = rules.logic.not
        && results(&[not]).iter().all(Vec::is_empty)
    {
        complain(format!("{name:?} must not validate the schema (not)"));
    }
    errors.extend(details);
}

/// Sets and keyed lists hold every item once.
fn unique(value: &Value, schema: SchemaRef<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    if schema.is_typed() {
        return;
    }
    if let Value::Array(list) = value {
        unique_items(list, schema, path, errors);
    }
    schema.parts(value, path, |value, schema, path| unique(value, schema, path, errors));
}

fn unique_items(list: &[Value], schema: SchemaRef<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    let identities: Vec<Value> = match schema.list_type() {
        ListType::Set => list.to_vec(),
        ListType::Map => {
            if let Some((at, item)) =
                list.iter().enumerate().find(|(_, item)| !item.is_object() && !item.is_null())
            {
                let why = "must be an object for an array of list-type map";
                errors.push(FieldError::invalid(&path.index(at), item.clone(), why));
                return;
            }
            let key = |item: &Value| {
                let keys =
                    schema.list_keys().filter_map(|key| Some((key.to_owned(), item.get(key)?.clone())));
                Value::Object(keys.collect())
            };
            list.iter().map(key).collect()
        }
        _ => return,
    };
    for (at, identity) in identities.iter().enumerate() {
        // Only the first repetition is reported.
        if identities[..at].iter().filter(|other| value_equal(other, identity)).count() == 1 {
            errors.push(FieldError::duplicate(&path.index(at), identity.clone()));
        }
    }
}
