//! The v2 document as protobuf (`application/com.github.proto-openapi.spec.v2.v1.0+protobuf`), in which generated
//! clients ask for it. Numbers are those of gnostic's `OpenAPIv2.proto`.

use serde_json::{Map, Value};

use super::Document;
use crate::{
    encode,
    protobuf::wire::{put_bytes, put_double, put_varint},
};

/// How a member of an object is written.
#[derive(Clone, Copy)]
enum Is {
    Text,
    Flag,
    Whole,
    Real,
    /// Any value, as YAML.
    Any,
    Texts,
    Anys,
    One(fn(&Value) -> Vec<u8>),
    /// A list, or one that stands for a list of one.
    Many(fn(&Value) -> Vec<u8>),
}

type Members = &'static [(&'static str, u16, Is)];

const SCHEMA: Members = &[
    ("$ref", 1, Is::Text),
    ("format", 2, Is::Text),
    ("title", 3, Is::Text),
    ("description", 4, Is::Text),
    ("default", 5, Is::Any),
    ("multipleOf", 6, Is::Real),
    ("maximum", 7, Is::Real),
    ("exclusiveMaximum", 8, Is::Flag),
    ("minimum", 9, Is::Real),
    ("exclusiveMinimum", 10, Is::Flag),
    ("maxLength", 11, Is::Whole),
    ("minLength", 12, Is::Whole),
    ("pattern", 13, Is::Text),
    ("maxItems", 14, Is::Whole),
    ("minItems", 15, Is::Whole),
    ("uniqueItems", 16, Is::Flag),
    ("maxProperties", 17, Is::Whole),
    ("minProperties", 18, Is::Whole),
    ("required", 19, Is::Texts),
    ("enum", 20, Is::Anys),
    ("additionalProperties", 21, Is::One(additional)),
    ("type", 22, Is::One(types)),
    ("items", 23, Is::One(items)),
    ("allOf", 24, Is::Many(schema)),
    ("properties", 25, Is::One(schemas)),
    ("externalDocs", 29, Is::One(docs)),
    ("example", 30, Is::Any),
];
const SCHEMA_EXTENSIONS: u16 = 31;

const OPERATION: Members = &[
    ("tags", 1, Is::Texts),
    ("description", 3, Is::Text),
    ("operationId", 5, Is::Text),
    ("produces", 6, Is::Texts),
    ("consumes", 7, Is::Texts),
    ("parameters", 8, Is::Many(parameter)),
    ("responses", 9, Is::One(responses)),
    ("schemes", 10, Is::Texts),
];
const OPERATION_EXTENSIONS: u16 = 13;

const PATH: Members = &[
    ("get", 2, Is::One(operation)),
    ("put", 3, Is::One(operation)),
    ("post", 4, Is::One(operation)),
    ("delete", 5, Is::One(operation)),
    ("options", 6, Is::One(operation)),
    ("head", 7, Is::One(operation)),
    ("patch", 8, Is::One(operation)),
    ("parameters", 9, Is::Many(parameter)),
];
const PATH_EXTENSIONS: u16 = 10;

const BODY: Members = &[
    ("description", 1, Is::Text),
    ("name", 2, Is::Text),
    ("in", 3, Is::Text),
    ("required", 4, Is::Flag),
    ("schema", 5, Is::One(schema)),
];
const IN_PATH: Members = &[
    ("required", 1, Is::Flag),
    ("in", 2, Is::Text),
    ("description", 3, Is::Text),
    ("name", 4, Is::Text),
    ("type", 5, Is::Text),
    ("uniqueItems", 18, Is::Flag),
];
const IN_QUERY: Members = &[
    ("required", 1, Is::Flag),
    ("in", 2, Is::Text),
    ("description", 3, Is::Text),
    ("name", 4, Is::Text),
    ("type", 6, Is::Text),
    ("uniqueItems", 20, Is::Flag),
];
const DOCS: Members = &[("description", 1, Is::Text), ("url", 2, Is::Text)];
const API_KEY: Members =
    &[("type", 1, Is::Text), ("name", 2, Is::Text), ("in", 3, Is::Text), ("description", 4, Is::Text)];

/// Writes what the table knows of an object, then its `x-` members as number `extensions`.
fn object(value: &Value, members: Members, extensions: u16) -> Vec<u8> {
    let empty = Map::new();
    let map = value.as_object().unwrap_or(&empty);
    let mut out = Vec::new();
    for (name, number, is) in members {
        if let Some(value) = map.get(*name) {
            member(&mut out, *number, *is, value);
        }
    }
    for (name, value) in map.iter().filter(|(name, _)| name.starts_with("x-") && extensions > 0) {
        put_bytes(&mut out, extensions, &named(name, &any(value)));
    }
    out
}

fn member(out: &mut Vec<u8>, number: u16, is: Is, value: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().as_bytes().to_vec();
    let list = || value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
    match is {
        Is::Text => put_bytes(out, number, &text(value)),
        Is::Flag => put_varint(out, number, i64::from(value.as_bool().unwrap_or_default())),
        Is::Whole => put_varint(out, number, value.as_i64().unwrap_or_default()),
        Is::Real => put_double(out, number, value.as_f64().unwrap_or_default()),
        Is::Any => put_bytes(out, number, &any(value)),
        Is::Texts => list().iter().for_each(|item| put_bytes(out, number, &text(item))),
        Is::Anys => list().iter().for_each(|item| put_bytes(out, number, &any(item))),
        Is::One(write) => put_bytes(out, number, &write(value)),
        Is::Many(write) => list().iter().for_each(|item| put_bytes(out, number, &write(item))),
    }
}

/// A message with one field.
fn wrapped(number: u16, inner: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, number, inner);
    out
}

fn any(value: &Value) -> Vec<u8> {
    wrapped(2, encode::yaml(value).as_bytes())
}

fn named(name: &str, value: &[u8]) -> Vec<u8> {
    let mut out = wrapped(1, name.as_bytes());
    put_bytes(&mut out, 2, value);
    out
}

/// The members of an object as named messages, all of one number.
fn map(value: &Value, number: u16, write: impl Fn(&Value) -> Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        put_bytes(&mut out, number, &named(name, &write(value)));
    }
    out
}

fn schema(value: &Value) -> Vec<u8> {
    object(value, SCHEMA, SCHEMA_EXTENSIONS)
}

fn schemas(value: &Value) -> Vec<u8> {
    map(value, 1, schema)
}

fn additional(value: &Value) -> Vec<u8> {
    match value {
        Value::Bool(on) => {
            let mut out = Vec::new();
            put_varint(&mut out, 2, i64::from(*on));
            out
        }
        value => wrapped(1, &schema(value)),
    }
}

fn types(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    member(&mut out, 1, Is::Texts, value);
    out
}

fn items(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    member(&mut out, 1, Is::Many(schema), value);
    out
}

fn docs(value: &Value) -> Vec<u8> {
    object(value, DOCS, 3)
}

fn path_item(value: &Value) -> Vec<u8> {
    object(value, PATH, PATH_EXTENSIONS)
}

fn operation(value: &Value) -> Vec<u8> {
    object(value, OPERATION, OPERATION_EXTENSIONS)
}

fn responses(value: &Value) -> Vec<u8> {
    map(value, 1, |response| {
        let mut out = Vec::new();
        if let Some(text) = response.get("description") {
            member(&mut out, 1, Is::Text, text);
        }
        if let Some(answer) = response.get("schema") {
            put_bytes(&mut out, 2, &wrapped(1, &schema(answer)));
        }
        wrapped(1, &out)
    })
}

/// A parameter of its place, or a reference to one.
fn parameter(value: &Value) -> Vec<u8> {
    if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
        return wrapped(2, &wrapped(1, reference.as_bytes()));
    }
    let inner = match value.get("in").and_then(Value::as_str) {
        Some("body") => wrapped(1, &object(value, BODY, 6)),
        Some("path") => wrapped(2, &wrapped(4, &object(value, IN_PATH, 22))),
        _ => wrapped(2, &wrapped(3, &object(value, IN_QUERY, 23))),
    };
    wrapped(1, &inner)
}

impl Document {
    /// The document as a protobuf message; made for v2.
    #[must_use]
    pub fn to_protobuf(&self) -> Vec<u8> {
        let mut out = wrapped(1, b"2.0");
        let mut info = wrapped(1, b"Kubernetes");
        put_bytes(&mut info, 2, self.version.as_bytes());
        put_bytes(&mut out, 2, &info);
        // Piece by piece: a tree of it all would take twenty times the memory.
        let pieces =
            |pieces: &std::collections::BTreeMap<String, String>, number, write: fn(&Value) -> Vec<u8>| {
                let mut out = Vec::new();
                for (name, text) in pieces {
                    let value: Value = serde_json::from_str(text).unwrap_or_default();
                    put_bytes(&mut out, number, &named(name, &write(&value)));
                }
                out
            };
        put_bytes(&mut out, 8, &pieces(&self.paths, 2, path_item));
        put_bytes(&mut out, 9, &pieces(&self.definitions, 1, schema));
        // Of the one way to authenticate.
        put_bytes(&mut out, 12, &wrapped(1, &named("BearerToken", b"")));
        let item = wrapped(2, &object(&super::bearer(), API_KEY, 5));
        put_bytes(&mut out, 13, &wrapped(1, &named("BearerToken", &item)));
        out
    }
}

/// The protobuf form of a v2 document that comes as JSON, such as one merged from several servers'.
#[must_use]
pub fn protobuf_of(json: &str) -> Vec<u8> {
    let document: Value = serde_json::from_str(json).unwrap_or_default();
    let pieces = |name: &str| {
        let entries = document.get(name).and_then(Value::as_object).into_iter().flatten();
        entries.map(|(key, value)| (key.clone(), value.to_string())).collect()
    };
    let version = document.pointer("/info/version").and_then(Value::as_str).unwrap_or_default();
    let (paths, definitions) = (pieces("paths"), pieces("definitions"));
    Document { dialect: super::Dialect::V2, version: version.to_owned(), paths, definitions }.to_protobuf()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_a_message() {
        let message = schema(&json!({"$ref": "#/a", "type": "object", "x-k": "v"}));
        assert_eq!(
            message,
            b"\x0a\x03#/a\xb2\x01\x08\x0a\x06object\xfa\x01\x0b\x0a\x03x-k\x12\x04\x12\x02v\n"
        );
        assert_eq!(additional(&json!(true)), [0x10, 1]);
        assert_eq!(items(&json!({"format": "x"})), b"\x0a\x03\x12\x01x");
    }

    #[test]
    fn the_document_is_whole() {
        let document = Document {
            dialect: super::super::Dialect::V2,
            version: "v1".to_owned(),
            paths: [("/a".to_owned(), "{\"get\":{\"operationId\":\"x\"}}".to_owned())].into(),
            definitions: [("D".to_owned(), "{\"type\":\"string\"}".to_owned())].into(),
        };
        let bytes = document.to_protobuf();
        assert!(bytes.starts_with(b"\x0a\x032.0\x12\x10\x0a\x0aKubernetes\x12\x02v1"));
        assert!(bytes.windows(4).any(|w| w == b"\x0a\x02/a"));
    }
}
