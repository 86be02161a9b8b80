//! Structural schemas of custom resources.

use std::sync::Arc;

use crate::kinds::at::At;

mod rules;

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

/// The schema of a version.
pub(super) fn root(at: &At<'_>) {
    if !at.present() {
        return;
    }
    let kind = at.get("type");
    if kind.str() != "object" {
        if kind.is_empty() {
            kind.required("must not be empty at the root");
        } else {
            kind.invalid("must be object at the root");
        }
    }
    let before = at.errors();
    node(at, true);
    let sound = at.errors() == before;
    let schema = at.value().filter(|schema| rules::given(schema));
    // What is no structural schema has no types that rules could be about.
    let set = schema.and_then(|schema| copepod_schema::SchemaSet::from_crd(schema, at.path()).ok());
    if let Some(set) = set.map(Arc::new) {
        if let Some(root) = set.root() {
            rules::paths(at, root);
        }
        if sound && at.errors() == before {
            rules::check(at, &set);
        }
    }
}

/// Nodes that need no type: integers or strings, and whatever is preserved.
fn untyped(at: &At<'_>) -> bool {
    at.get("x-kubernetes-int-or-string").bool() || at.get("x-kubernetes-preserve-unknown-fields").bool()
}

fn node(at: &At<'_>, top: bool) {
    let kind = at.get("type");
    if !kind.is_empty() && !TYPES.contains(&kind.str()) {
        kind.not_supported(TYPES);
    }
    if kind.str() == "array" && !at.get("items").present() {
        at.get("items").required("must be specified");
    }
    let additional = at.get("additionalProperties");
    let anything = additional.value() == Some(&serde_json::Value::Bool(true));
    if at.get("properties").present() && additional.present() && !anything {
        at.get("additionalProperties").forbidden("additionalProperties and properties are mutual exclusive");
    }
    for (name, child) in at.get("properties").entries() {
        if top && name == "metadata" {
            metadata(&child);
            continue;
        }
        typed(&child, "must not be empty for specified object fields");
        node(&child, false);
    }
    let items = at.get("items");
    if items.present() {
        typed(&items, "must not be empty for specified array items");
        node(&items, false);
    }
    let values = at.get("additionalProperties");
    if values.map().is_some() {
        typed(&values, "must not be empty for specified object fields");
        node(&values, false);
    }
    if at.get("uniqueItems").bool() {
        at.get("uniqueItems")
            .forbidden("uniqueItems cannot be set to true since the runtime complexity becomes quadratic");
    }
    if at.get("$ref").present() {
        at.get("$ref").forbidden("$ref is not supported");
    }
    list_map(at);
    rules::written(at);
}

fn typed(at: &At<'_>, why: &str) {
    if at.get("type").is_empty() && !untyped(at) {
        at.get("type").required(why);
    }
}

/// Of `metadata` a schema may restrict the names only.
fn metadata(at: &At<'_>) {
    let known = at.get("properties").entries().all(|(name, _)| matches!(name, "name" | "generateName"));
    let plain = at
        .map()
        .is_none_or(|map| map.keys().all(|k| matches!(k.as_str(), "type" | "properties" | "description")));
    if !known || !plain {
        at.forbidden("must not specify anything other than name and generateName, but metadata is implicitly specified");
    }
}

fn list_map(at: &At<'_>) {
    let (kind, keys) = (at.get("x-kubernetes-list-type"), at.get("x-kubernetes-list-map-keys"));
    kind.one_of(&["atomic", "map", "set"]);
    if kind.str() == "map" && keys.is_empty() {
        keys.required("must not be empty if x-kubernetes-list-type is map");
    } else if kind.str() != "map" && !keys.is_empty() {
        keys.invalid("must not be specified if x-kubernetes-list-type is not map");
    }
    if !kind.is_empty() && !at.is("type", "array") {
        at.get("type").invalid("must be array if x-kubernetes-list-type is specified");
    }
}
