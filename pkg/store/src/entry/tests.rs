use copepod_api::selector::Labels as _;
use serde_json::{Value, json};

use super::*;

fn entry(value: &str) -> Entry {
    Entry::new(KeyValue {
        key: "/registry/pods/default/a".into(),
        value: Bytes::copy_from_slice(value.as_bytes()),
        revision: 7,
    })
}

fn written(entry: &Entry) -> String {
    let mut out = Vec::new();
    entry.write(entry.revision(), &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn the_resource_version_is_spliced_after_the_identity() {
    let e = entry(
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"u","labels":{"app":"x"}},"spec":{}}"#,
    );
    assert_eq!(
        written(&e),
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"u","resourceVersion":"7","labels":{"app":"x"}},"spec":{}}"#
    );
    assert_eq!(e.labels().label("app"), Some("x"));
    assert_eq!(e.labels().label("nope"), None);
    assert_eq!((e.name(), e.api_version()), ("a", "v1"));
    let parts: Vec<u8> = e.parts(9).concat();
    let parsed: Value = serde_json::from_slice(&parts).unwrap();
    assert_eq!(parsed["metadata"]["resourceVersion"], "9");
    let mut out = Vec::new();
    e.write_untyped(7, &mut out);
    assert!(out.starts_with(br#"{"metadata":{"name":"a""#));
    out.clear();
    e.write_as("v2", 7, &mut out);
    assert!(out.starts_with(br#"{"kind":"Pod","apiVersion":"v2","metadata":{"name":"a""#));
}

#[test]
fn odd_layouts_are_served_all_the_same() {
    for text in [
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{},"name":"a"}}"#,
        r#"{"metadata":{"name":"a"},"kind":"Pod","apiVersion":"v1"}"#,
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{}}"#,
        r#"{ "kind" : "Pod" , "apiVersion" : "v1" , "metadata" : { "resourceVersion":"3" , "name":"a\"b" } }"#,
    ] {
        let e = entry(text);
        assert_eq!(e.problem(), None, "{text}");
        let value: Value = serde_json::from_str(&written(&e)).unwrap();
        assert_eq!(value["metadata"]["resourceVersion"], "7", "{text}");
        assert_eq!(value["kind"], "Pod");
        assert_eq!(e.value().unwrap(), value);
    }
}

#[test]
fn what_cannot_be_read_says_why() {
    assert!(entry("k8s\0\n\u{c}").problem().unwrap().contains("protobuf"));
    assert!(entry("k8s:enc:aescbc:v1:").problem().unwrap().contains("encrypted"));
    assert!(entry("[1]").problem().is_some());
    assert!(entry("").problem().is_some());
    assert!(entry("{}").problem().is_some());
    assert!(entry(&json!({"kind": "Pod"}).to_string()).problem().is_some());
}

#[test]
fn an_entry_costs_about_its_bytes() {
    let mut object =
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "labels": {"app": "x"}}});
    object["spec"] = json!({"text": "x".repeat(1700)});
    let e = entry(&scan::canonical(&object).iter().map(|b| *b as char).collect::<String>());
    assert!(e.cost() < e.stored().len() + 300, "{} for {}", e.cost(), e.stored().len());
}
