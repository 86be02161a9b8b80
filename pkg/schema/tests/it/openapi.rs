//! Our documents against the published ones: paths, operations and types. Left out are prose, forms of CBOR (off by
//! default), and the enumerations that upstream's published files lack while its server has them.

use std::{fs, path::Path};

use copepod_api::ResourceDef;
use copepod_schema::{
    openapi::{Sources, path, v2, v3},
    resources,
};
use serde_json::Value;

/// Whether a member of an object is no part of the comparison.
fn left_out(key: &str, value: &Value) -> bool {
    (key == "description" && value.is_string()) || (key == "enum" && value.is_array()) || key.contains("cbor")
}

/// Appends where `ours` is another tree than `theirs`.
fn compare(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let path = format!("{path}/{key}");
                match (a.get(key), b.get(key)) {
                    (Some(value), _) | (_, Some(value)) if left_out(key, value) => {}
                    (Some(a), Some(b)) => compare(&path, a, b, found),
                    (None, _) => found.push(format!("{path} is missing")),
                    (_, None) => found.push(format!("{path} is too much")),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{path}/{at}"), a, b, found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(format!("{path} is {a}, not {b}")),
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("published")).expect("JSON")
}

fn verdict(mut found: Vec<String>) {
    // A reference with a description beside it is wrapped; ours has none for this field.
    found.retain(|line| !line.contains("meta.v1.WatchEvent/properties/object/"));
    assert!(
        found.is_empty(),
        "{} differences, such as\n{}",
        found.len(),
        found[..found.len().min(30)].join("\n")
    );
}

#[test]
fn the_v3_documents_are_the_published_ones() {
    let Some(dir) = crate::module("k8s.io/kubernetes@v1.37.2/api/openapi-spec/v3") else { return };
    let rows = resources();
    let mut versions: Vec<(&str, &str)> = rows.iter().map(|row| (&*row.group, &*row.version)).collect();
    versions.dedup();
    let mut found = Vec::new();
    for (group, version) in versions {
        let own: Vec<&ResourceDef> =
            rows.iter().filter(|row| row.group == group && row.version == version).collect();
        let ours = v3(&Sources { rows: &own, custom: &[], version: "v1.37.2" }).to_string();
        let ours: Value = serde_json::from_str(&ours).expect("JSON");
        let name = path(group, version).replace('/', "__");
        let theirs = json(&dir.join(format!("{name}_openapi.json")));
        for part in ["paths", "components"] {
            compare(&format!("{name} {part}"), &ours[part], &theirs[part], &mut found);
        }
    }
    verdict(found);
}

#[test]
fn the_v2_definitions_are_the_published_ones() {
    let Some(dir) = crate::module("k8s.io/kubernetes@v1.37.2/api/openapi-spec") else { return };
    let theirs = json(&dir.join("swagger.json"));
    let rows = resources();
    let rows: Vec<&ResourceDef> = rows.iter().collect();
    let ours = v2(&Sources { rows: &rows, custom: &[], version: "v1.37.2" }).to_string();
    let ours: Value = serde_json::from_str(&ours).expect("JSON");
    let definitions = ours["definitions"].as_object().expect("definitions");
    assert!(definitions.len() > 500, "only {} definitions", definitions.len());
    let mut found = Vec::new();
    for (name, definition) in definitions {
        compare(name, definition, &theirs["definitions"][name], &mut found);
    }
    // The published list names versions that are off by default.
    found.retain(|line| !line.contains("/x-kubernetes-group-version-kind"));
    verdict(found);
}
