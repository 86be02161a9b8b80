//! Our OpenAPI documents against the published ones: all paths, operations and types. Left out are prose, forms of CBOR
//! (off by default), and the enumerations that upstream's published files lack while its server has them.

use std::fs;

use copepod_api::ResourceDef;
use copepod_schema::openapi::{Sources, v3};
use serde_json::Value;

use super::Modules;

/// Appends where `ours` is another tree than `theirs`.
fn compare(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let left_out = |key: &str, value: &Value| {
                (key == "description" && value.is_string())
                    || (key == "enum" && value.is_array())
                    || key.contains("cbor")
            };
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

#[test]
fn documents_are_those_that_upstream_publishes() {
    let modules = Modules::from_env().and_then(|modules| modules.dir("kubernetes"));
    let folder = match modules {
        Ok(dir) => dir.join("api/openapi-spec/v3"),
        Err(missing) => return println!("not tested: {missing}"),
    };
    let rows = copepod_schema::resources();
    let mut versions: Vec<(&str, &str)> = rows.iter().map(|row| (&*row.group, &*row.version)).collect();
    versions.dedup();
    let mut found = Vec::new();
    for (group, version) in versions {
        let own: Vec<&ResourceDef> =
            rows.iter().filter(|row| row.group == group && row.version == version).collect();
        let ours = v3(&Sources { rows: &own, custom: &[], version: "v1.37.2" }).to_string();
        let ours: Value = serde_json::from_str(&ours).expect("JSON");
        let name = copepod_schema::openapi::path(group, version).replace('/', "__");
        let path = folder.join(format!("{name}_openapi.json"));
        let theirs: Value =
            serde_json::from_str(&fs::read_to_string(&path).expect("published")).expect("JSON");
        for part in ["paths", "components"] {
            compare(&format!("{name} {part}"), &ours[part], &theirs[part], &mut found);
        }
    }
    // A reference with a description beside it is wrapped; ours has none for this field.
    found.retain(|line| !line.contains("meta.v1.WatchEvent/properties/object/"));
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found[..found.len().min(30)].join("\n"));
}
