//! Definitions of custom resources: the schema as written, with what every object has added.

use copepod_api::ResourceDef;
use serde_json::{Map, Value, json};

use super::{Custom, Dialect, definitions::Definitions};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// The name of a custom kind's definition: the group's labels reversed, version, kind.
#[must_use]
pub fn model_name(group: &str, version: &str, kind: &str) -> String {
    let labels: Vec<&str> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", labels.join("."))
}

pub(super) fn add(custom: &Custom<'_>, definitions: &mut Definitions) {
    let row = custom.row;
    let object = object(custom, definitions);
    definitions.insert(&row.schema, &object);
    let list = list(row, definitions);
    let name = row.schema.rsplit_once('.').map_or(row.schema.as_str(), |(package, _)| package);
    definitions.insert(&format!("{name}.{}", row.list_kind), &list);
}

fn gvk(row: &ResourceDef, kind: &str) -> Value {
    json!([{"group": row.group, "version": row.version, "kind": kind}])
}

fn object(custom: &Custom<'_>, definitions: &mut Definitions) -> Value {
    let v2 = definitions.dialect == Dialect::V2;
    let open = custom
        .schema
        .is_none_or(|s| v2 && s.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(true)));
    let mut schema = match custom.schema {
        Some(schema) if !open => schema.clone(),
        _ => json!({"type": "object"}),
    };
    if !open {
        if v2 {
            to_v2(&mut schema);
        }
        own_fields(&mut schema, definitions);
        embedded(&mut schema, definitions);
    }
    let selectable: Vec<Value> = custom
        .row
        .selectable_fields
        .iter()
        .map(|(_, path)| json!({"fieldPath": path.trim_start_matches('.')}))
        .collect();
    if let Value::Object(map) = &mut schema {
        map.insert("x-kubernetes-group-version-kind".to_owned(), gvk(custom.row, &custom.row.kind));
        if !selectable.is_empty() {
            map.insert("x-kubernetes-selectable-fields".to_owned(), Value::Array(selectable));
        }
    }
    schema
}

fn described(mut schema: Value, text: Option<String>) -> Value {
    if let (Value::Object(map), Some(text)) = (&mut schema, text) {
        map.insert("description".to_owned(), text.into());
    }
    schema
}

/// `apiVersion`, `kind` and `metadata`, in place of whatever the schema says of them.
fn own_fields(schema: &mut Value, definitions: &mut Definitions) {
    let reference = definitions.reference(OBJECT_META);
    let metadata = match definitions.dialect {
        Dialect::V2 => reference,
        Dialect::V3 => json!({"allOf": [reference]}),
    };
    let text = |field| definitions.text("io.k8s.api.core.v1.Pod", field);
    let own = [
        ("apiVersion", described(json!({"type": "string"}), text("apiVersion"))),
        ("kind", described(json!({"type": "string"}), text("kind"))),
        ("metadata", described(metadata, text("metadata"))),
    ];
    let Value::Object(map) = schema else { return };
    let properties = map.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        properties.extend(own.map(|(name, value)| (name.to_owned(), value)));
    }
}

/// Objects inside the object.
fn embedded(schema: &mut Value, definitions: &mut Definitions) {
    let v2 = definitions.dialect == Dialect::V2;
    for_each_part(schema, &mut |part| embedded(part, definitions));
    let flag = |key: &str| schema.get(key) == Some(&Value::Bool(true));
    if !flag("x-kubernetes-embedded-resource") || (v2 && flag("x-kubernetes-preserve-unknown-fields")) {
        return;
    }
    own_fields(schema, definitions);
    let Value::Object(map) = schema else { return };
    let required = map.entry("required").or_insert_with(|| json!([]));
    if let Value::Array(required) = required {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|r| r == name) {
                required.push(name.into());
            }
        }
    }
}

fn for_each_part(schema: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    let Value::Object(map) = schema else { return };
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(&mut *visit);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(part) = map.get_mut(key).filter(|part| part.is_object()) {
            visit(part);
        }
    }
}

/// Swagger 2.0 knows neither junctors nor null: what they speak about becomes free.
fn to_v2(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    for key in ["allOf", "anyOf", "oneOf", "not"] {
        map.remove(key);
    }
    let flag = |map: &Map<String, Value>, key: &str| map.get(key) == Some(&Value::Bool(true));
    let preserve = flag(map, "x-kubernetes-preserve-unknown-fields");
    if map.remove("nullable") == Some(Value::Bool(true)) {
        for key in ["type", "items", "properties"] {
            map.remove(key);
        }
    }
    if preserve {
        map.remove("items");
        map.remove("properties");
        if map.get("type") == Some(&json!("object")) {
            map.remove("type");
        }
    }
    if map.get("type") == Some(&json!("array")) && !map.contains_key("items") {
        map.remove("type");
    }
    let nullable = |part: &Value| part.get("nullable") == Some(&Value::Bool(true));
    let properties = map.get("properties").and_then(Value::as_object);
    let free: Vec<String> = properties
        .into_iter()
        .flatten()
        .filter(|(_, part)| nullable(part))
        .map(|(name, _)| name.clone())
        .collect();
    let values_free = map.get("additionalProperties").is_some_and(nullable);
    if let Some(Value::Array(required)) = map.get_mut("required") {
        required.retain(|name| !values_free && !free.iter().any(|f| name == f));
        if required.is_empty() {
            map.remove("required");
        }
    }
    for_each_part(schema, &mut to_v2);
}

fn list(row: &ResourceDef, definitions: &mut Definitions) -> Value {
    let item = definitions.dialect.reference(&row.schema);
    let metadata = definitions.reference(LIST_META);
    let metadata = if definitions.dialect == Dialect::V3 { json!({"allOf": [metadata]}) } else { metadata };
    let text = |field| definitions.text("io.k8s.api.core.v1.Pod", field);
    json!({
        "description": format!("{} is a list of {}", row.list_kind, row.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": described(json!({"type": "string"}), text("apiVersion")),
            "kind": described(json!({"type": "string"}), text("kind")),
            "metadata": described(metadata, text("metadata")),
            "items": {"type": "array", "items": item, "description": format!("The {} of the list.", row.plural)},
        },
        "x-kubernetes-group-version-kind": gvk(row, &row.list_kind),
    })
}
