//! Our documents against the published ones, prose apart.

use std::fs;

use copepod_api::ResourceDef;
use copepod_schema::{
    openapi::{Sources, v2, v3},
    resources,
};
use serde_json::Value;

/// Without prose (and the wrapping that prose needs beside a reference), without unions, which nothing reads.
fn facts(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, value)| {
                !(*key == "description" && value.is_string()) && *key != "x-kubernetes-unions"
            });
            let kept: serde_json::Map<String, Value> =
                kept.map(|(key, value)| (key.clone(), facts(value))).collect();
            match kept.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
                Some([only]) if kept.len() == 1 => only.clone(),
                _ => Value::Object(kept),
            }
        }
        Value::Array(list) => Value::Array(list.iter().map(facts).collect()),
        other => other.clone(),
    }
}

/// Compares the definitions of a document; ours may lack those that only served lists of options name.
fn differences(ours: &Value, theirs: &Value, failed: &mut Vec<String>) -> usize {
    let empty = serde_json::Map::new();
    let ours = ours.as_object().unwrap_or(&empty);
    let theirs = theirs.as_object().expect("an object");
    for (name, schema) in ours {
        let many_kinds =
            name.ends_with(".DeleteOptions") || name.ends_with(".WatchEvent") || name.ends_with(".Status");
        match theirs.get(name) {
            None => failed.push(format!("{name}: not published")),
            Some(published) if !many_kinds && facts(schema) != facts(published) => {
                failed.push(format!("{name}:\n  ours   {}\n  theirs {}", facts(schema), facts(published)));
            }
            Some(_) => {}
        }
    }
    ours.len()
}

#[test]
fn definitions_are_the_published_ones() {
    let Some(dir) = crate::module("k8s.io/kubernetes@v1.37.2/api/openapi-spec") else { return };
    let rows = resources();
    let mut versions: Vec<(&str, &str)> =
        rows.iter().map(|row| (row.group.as_str(), row.version.as_str())).collect();
    versions.dedup();
    let (mut compared, mut failed) = (0, Vec::new());
    for (group, version) in versions {
        let file =
            if group.is_empty() { format!("api__{version}") } else { format!("apis__{group}__{version}") };
        let text = fs::read_to_string(dir.join(format!("v3/{file}_openapi.json"))).expect("published");
        let published: Value = serde_json::from_str(&text).expect("JSON");
        let own: Vec<&ResourceDef> =
            rows.iter().filter(|r| r.group == group && r.version == version).collect();
        let document = v3(&Sources { rows: &own, custom: &[], version: "v1.37.2" }).to_string();
        let document: Value = serde_json::from_str(&document).expect("JSON");
        compared +=
            differences(&document["components"]["schemas"], &published["components"]["schemas"], &mut failed);
        for path in document["paths"].as_object().expect("paths").keys() {
            if published["paths"].get(path).is_none() {
                failed.push(format!("{path}: not published"));
            }
        }
    }
    failed.sort();
    failed.dedup();
    assert!(failed.is_empty(), "{} of {compared} differ\n{}", failed.len(), failed.join("\n"));
    assert!(compared > 500, "only {compared} definitions");
}

#[test]
fn the_v2_document_is_the_published_one() {
    let Some(dir) = crate::module("k8s.io/kubernetes@v1.37.2/api/openapi-spec") else { return };
    let published: Value =
        serde_json::from_slice(&fs::read(dir.join("swagger.json")).expect("read")).expect("JSON");
    let rows = resources();
    let rows: Vec<&ResourceDef> = rows.iter().collect();
    let document = v2(&Sources { rows: &rows, custom: &[], version: "v1.37.2" }).to_string();
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let mut failed = Vec::new();
    let compared = differences(&document["definitions"], &published["definitions"], &mut failed);
    assert!(failed.is_empty(), "{} of {compared} differ\n{}", failed.len(), failed.join("\n"));
}
