//! What makes a schema structural: types everywhere, value validations apart, nothing that cannot be served.

use copepod_api::{FieldError, FieldErrors, FieldPath};
use serde_json::{Value, json};

use super::{flag, list, text};
use crate::node::Pattern;

/// Where a schema stands in its parent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

const UNSUPPORTED: [&str; 6] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

/// All violations, sorted as upstream sorts them.
pub(super) fn check(schema: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = Vec::new();
    general(schema, path, true, &mut errors);
    if errors.is_empty() {
        invariants(schema, Level::Root, path, &mut errors);
        complete(schema, Some(schema), path, path, &mut errors);
    }
    errors.sort_by_key(ToString::to_string);
    errors
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// Sub-schemas with their paths: structure first, then junctors.
fn parts<'v>(schema: &'v Value, path: &FieldPath) -> Vec<(FieldPath, &'v Value)> {
    let mut parts = Vec::new();
    for (name, property) in properties(schema) {
        parts.push((path.child("properties").key(name), property));
    }
    for key in ["items", "additionalProperties", "not"] {
        if let Some(inner) = schema.get(key).filter(|inner| inner.is_object()) {
            parts.push((path.child(key), inner));
        }
    }
    parts.extend(junctors(schema, path));
    parts
}

fn junctors<'v>(schema: &'v Value, path: &FieldPath) -> Vec<(FieldPath, &'v Value)> {
    let all = ["allOf", "anyOf", "oneOf"].into_iter();
    all.flat_map(|key| {
        list(schema, key).iter().enumerate().map(move |(at, inner)| (path.child(key).index(at), inner))
    })
    .collect()
}

/// Rules for every schema, structural or not.
fn general(schema: &Value, path: &FieldPath, root: bool, errors: &mut FieldErrors) {
    let type_ = text(schema, "type");
    if !type_.is_empty() && !TYPES.contains(&type_) {
        errors.push(FieldError::not_supported(&path.child("type"), type_, &TYPES));
        if root {
            errors.push(FieldError::invalid(&path.child("type"), type_, "must be object at the root"));
        }
    }
    for key in UNSUPPORTED {
        if schema.get(key).is_some() {
            errors.push(FieldError::forbidden(&path.child(key), format!("{key} is not supported")));
        }
    }
    if schema.get("items").is_some_and(Value::is_array) {
        errors.push(FieldError::forbidden(
            &path.child("items"),
            "items must be a schema object and not an array",
        ));
    }
    if flag(schema, "uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(&path.child("uniqueItems"), why));
    }
    let additional = schema.get("additionalProperties");
    if properties(schema).next().is_some() && additional.is_some_and(|a| *a != Value::Bool(true)) {
        let why = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(&path.child("additionalProperties"), why));
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let path = path.child("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(&path, false, "must be true or undefined"));
    }
    merge_types(schema, path, errors);
    for (path, inner) in parts(schema, path) {
        general(inner, &path, false, errors);
    }
    if root {
        for name in ["apiVersion", "kind", "metadata"] {
            if schema.pointer(&format!("/properties/{name}/default")).is_some() {
                let path = path.child("properties").key(name).child("default");
                errors.push(FieldError::forbidden(&path, format!("must not be set in top-level {name}")));
            }
        }
    }
}

/// An extension that needs a type beside it.
fn needs_type(schema: &Value, path: &FieldPath, type_: &str, extension: &str, errors: &mut FieldErrors) {
    let given = text(schema, "type");
    if text(schema, extension).is_empty() || given == type_ {
        return;
    }
    let (path, why) = (path.child("type"), format!("must be {type_} if {extension} is specified"));
    errors.push(match given {
        "" => FieldError::required(&path, why),
        given => FieldError::invalid(&path, given, why),
    });
}

/// `x-kubernetes-list-type`, `x-kubernetes-list-map-keys` and `x-kubernetes-map-type`.
fn merge_types(schema: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (list_type, map_type) =
        (text(schema, "x-kubernetes-list-type"), text(schema, "x-kubernetes-map-type"));
    needs_type(schema, path, "object", "x-kubernetes-map-type", errors);
    if !matches!(map_type, "" | "atomic" | "granular") {
        let path = path.child("x-kubernetes-map-type");
        errors.push(FieldError::not_supported(&path, map_type, &["atomic", "granular"]));
    }
    needs_type(schema, path, "array", "x-kubernetes-list-type", errors);
    let list_path = path.child("x-kubernetes-list-type");
    if !matches!(list_type, "" | "atomic" | "set" | "map") {
        errors.push(FieldError::not_supported(&list_path, list_type, &["atomic", "set", "map"]));
    }
    let keys = list(schema, "x-kubernetes-list-map-keys");
    let why = "must be map if x-kubernetes-list-map-keys is non-empty";
    if list_type == "set" && schema.get("items").is_some_and(|items| !set_item(items)) {
        let items = path.child("items");
        let (field, wanted) = match schema.get("items").map(|items| text(items, "type")) {
            Some("array") => ("x-kubernetes-list-type", "atomic"),
            _ => ("x-kubernetes-map-type", "atomic"),
        };
        let why = format!("must be {wanted} as item of a list with x-kubernetes-list-type=set");
        errors.push(FieldError::invalid(&items.child(field), Value::Null, why));
    }
    match list_type {
        "" if !keys.is_empty() => errors.push(FieldError::required(&list_path, why)),
        "map" => list_map(schema, keys, path, errors),
        other if !keys.is_empty() => errors.push(FieldError::invalid(&list_path, other, why)),
        _ => {}
    }
}

/// Whether an item has an identity as a whole.
fn set_item(items: &Value) -> bool {
    match text(items, "type") {
        "object" => text(items, "x-kubernetes-map-type") == "atomic",
        "array" => matches!(text(items, "x-kubernetes-list-type"), "" | "atomic"),
        _ => true,
    }
}

fn list_map(schema: &Value, keys: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    let keys_path = path.child("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(FieldError::required(&keys_path, "must not be empty if x-kubernetes-list-type is map"));
    }
    let Some(items) = schema.get("items").filter(|items| items.is_object()) else {
        let why = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&path.child("items"), why));
        return;
    };
    if text(items, "type") != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(&path.child("items").child("type"), text(items, "type"), why));
        return;
    }
    for (at, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        let why = match items.get("properties").and_then(|p| p.get(name)).map(|p| text(p, "type")) {
            None => Some("entries must all be names of item properties"),
            _ if keys[..at].contains(key) => Some("must not contain duplicate entries"),
            Some("array" | "object") => {
                let path = path.child("items").child("properties").key(name).child("type");
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(&path, text(items, "type"), why));
                None
            }
            Some(_) => None,
        };
        errors.extend(why.map(|why| FieldError::invalid(&keys_path, json!(keys), why)));
    }
}

/// The structural part: a type for every position.
fn invariants(schema: &Value, level: Level, path: &FieldPath, errors: &mut FieldErrors) {
    let type_ = text(schema, "type");
    if type_ == "array" && schema.get("items").is_none() {
        errors.push(FieldError::required(&path.child("items"), "must be specified"));
    }
    if let Some(items) = schema.get("items") {
        invariants(items, Level::Item, &path.child("items"), errors);
    }
    for (name, property) in properties(schema) {
        if !(level == Level::Root && name == "metadata") {
            invariants(property, Level::Field, &path.child("properties").key(name), errors);
        }
    }
    let additional = schema.get("additionalProperties");
    if additional.is_some() && level == Level::Root {
        errors
            .push(FieldError::forbidden(&path.child("additionalProperties"), "must not be used at the root"));
    }
    if let Some(inner) = additional.filter(|inner| inner.is_object()) {
        invariants(inner, Level::Field, &path.child("additionalProperties"), errors);
    }
    position_type(schema, level, path, errors);
    extensions(schema, path, errors);
    metadata(schema, level, path, errors);
    value_validations(schema, path, skipped(schema), errors);
}

fn position_type(schema: &Value, level: Level, path: &FieldPath, errors: &mut FieldErrors) {
    let (type_, path) = (text(schema, "type"), path.child("type"));
    let free =
        flag(schema, "x-kubernetes-int-or-string") || flag(schema, "x-kubernetes-preserve-unknown-fields");
    if flag(schema, "x-kubernetes-embedded-resource") && type_ != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match type_ {
            "" => FieldError::required(&path, why),
            given => FieldError::invalid(&path, given, why),
        });
    } else if type_.is_empty() && !free {
        errors.push(FieldError::required(
            &path,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        ));
    }
    if level == Level::Root && !type_.is_empty() && type_ != "object" {
        errors.push(FieldError::invalid(&path, type_, "must be object at the root"));
    }
}

fn extensions(schema: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let preserve = flag(schema, "x-kubernetes-preserve-unknown-fields");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    if flag(schema, "x-kubernetes-int-or-string") {
        let why = "must be false if x-kubernetes-int-or-string is true";
        for (on, key) in
            [(preserve, "x-kubernetes-preserve-unknown-fields"), (embedded, "x-kubernetes-embedded-resource")]
        {
            if on {
                errors.push(FieldError::invalid(&path.child(key), true, why));
            }
        }
    }
    if embedded && schema.get("additionalProperties").is_some() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(&path.child("additionalProperties"), why));
    }
    if embedded && !preserve && properties(schema).next().is_none() {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&path.child("properties"), why));
    }
}

/// The fields every object has may only be declared as what they are.
fn metadata(schema: &Value, level: Level, path: &FieldPath, errors: &mut FieldErrors) {
    if level != Level::Root && !flag(schema, "x-kubernetes-embedded-resource") {
        return;
    }
    for (name, property) in properties(schema) {
        let path = path.child("properties").key(name);
        let wanted = match name.as_str() {
            "kind" | "apiVersion" => "string",
            "metadata" => "object",
            _ => continue,
        };
        if text(property, "type") != wanted {
            errors.push(FieldError::invalid(
                &path.child("type"),
                text(property, "type"),
                format!("must be {wanted}"),
            ));
        }
        if name == "metadata" && level == Level::Root {
            let allowed = |key: &String| matches!(key.as_str(), "type" | "properties" | "description");
            let keys = property.as_object().into_iter().flat_map(|map| map.keys());
            let inner =
                properties(property).all(|(name, _)| matches!(name.as_str(), "name" | "generateName"));
            if !inner || !keys.into_iter().all(allowed) {
                let why = "must not specify anything other than name and generateName, \
                           but metadata is implicitly specified";
                errors.push(FieldError::forbidden(&path, why));
            }
        }
    }
}

/// The junctors that spell out int-or-string and so may name types.
fn skipped(schema: &Value) -> (bool, bool) {
    let spelled = json!([{"type": "integer"}, {"type": "string"}]);
    let any_of = schema.get("anyOf") == Some(&spelled);
    let first = list(schema, "allOf").first().and_then(|inner| inner.get("anyOf")) == Some(&spelled);
    (any_of, first)
}

fn value_validations(schema: &Value, path: &FieldPath, skip: (bool, bool), errors: &mut FieldErrors) {
    if let Some(why) =
        Some(text(schema, "pattern")).filter(|p| !p.is_empty()).and_then(|p| Pattern::new(p).error())
    {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(&path.child("pattern"), text(schema, "pattern"), why));
    }
    for (inner_path, inner) in junctors(schema, path) {
        let relative = inner_path.as_str().strip_prefix(path.as_str()).unwrap_or_default();
        let spelled = skip.0 && relative.contains("anyOf");
        if !spelled {
            let first = skip.1 && relative.ends_with("allOf[0]");
            nested(inner, &inner_path, (first, false), errors);
        }
    }
    if let Some(inner) = schema.get("not") {
        nested(inner, &path.child("not"), (false, false), errors);
    }
}

/// Inside junctors only value validations may stand.
fn nested(schema: &Value, path: &FieldPath, skip: (bool, bool), errors: &mut FieldErrors) {
    value_validations(schema, path, skip, errors);
    if let Some(items) = schema.get("items") {
        nested(items, &path.child("items"), (false, false), errors);
    }
    for (name, property) in properties(schema) {
        let path = path.child("properties").key(name);
        if name == "metadata" {
            errors.push(FieldError::forbidden(&path, "must not be specified in a nested context"));
        }
        nested(property, &path, (false, false), errors);
    }
    for (key, state) in [
        ("type", "empty"),
        ("additionalProperties", "undefined"),
        ("default", "undefined"),
        ("title", "empty"),
        ("description", "empty"),
        ("nullable", "false"),
        ("x-kubernetes-preserve-unknown-fields", "false"),
        ("x-kubernetes-embedded-resource", "false"),
        ("x-kubernetes-int-or-string", "false"),
        ("x-kubernetes-list-map-keys", "empty"),
        ("x-kubernetes-list-type", "undefined"),
        ("x-kubernetes-map-type", "undefined"),
        ("x-kubernetes-validations", "empty"),
    ] {
        let set = schema.get(key).is_some_and(|value| *value != Value::Bool(false) && value != "");
        if set {
            errors.push(FieldError::forbidden(&path.child(key), format!("must be {state} to be structural")));
        }
    }
}

/// Whatever a junctor speaks about must be declared in the structure.
fn complete(
    rules: &Value,
    schema: Option<&Value>,
    path: &FieldPath,
    at: &FieldPath,
    errors: &mut FieldErrors,
) {
    for (inner_at, inner) in junctors(rules, at) {
        complete_nested(inner, schema, path, &inner_at, errors);
    }
    if let Some(inner) = rules.get("not") {
        complete_nested(inner, schema, path, &at.child("not"), errors);
    }
}

fn complete_nested(
    rules: &Value,
    schema: Option<&Value>,
    path: &FieldPath,
    at: &FieldPath,
    errors: &mut FieldErrors,
) {
    let Some(schema) = schema else {
        errors.push(FieldError::required(path, format!("because it is defined in {at}")));
        return;
    };
    complete(rules, Some(schema), path, at, errors);
    if let Some(items) = rules.get("items") {
        complete_nested(items, schema.get("items"), &path.child("items"), &at.child("items"), errors);
    }
    for (name, property) in properties(rules) {
        let declared = schema.get("properties").and_then(|map| map.get(name));
        let (path, at) = (path.child("properties").key(name), at.child("properties").key(name));
        complete_nested(property, declared, &path, &at, errors);
    }
}
