//! Every kind filled in every field must come back as it was.

use std::fs;

use copepod_schema::{builtin, decode, decode::FieldValidation, encode, protobuf};

/// Removes white space between JSON tokens, order and numbers untouched.
fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut inside, mut escaped) = (false, false);
    for c in text.chars() {
        if inside || !c.is_whitespace() {
            out.push(c);
        }
        inside ^= c == '"' && !escaped;
        escaped = inside && c == '\\' && !escaped;
    }
    out
}

#[test]
fn every_kind_filled_in_every_field_round_trips() {
    let Some(dir) = crate::module("k8s.io/api@v0.37.2/testdata/HEAD") else { return };
    let (mut tested, mut failed) = (0, Vec::new());
    for entry in fs::read_dir(&dir).expect("listed") {
        let path = entry.expect("listed").path();
        let Some(name) = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".json"))
        else {
            continue;
        };
        let parts: Vec<&str> = name.split('.').collect();
        let [group @ .., version, kind] = parts.as_slice() else { continue };
        let group = group.join(".");
        let group = if group == "core" { "" } else { &group };
        let Some(schema) = builtin().kind(group, version, kind) else {
            assert!(version.contains("alpha") || version.contains("beta") || unserved(name), "{name}");
            continue;
        };
        let text = fs::read_to_string(&path).expect("read");
        let decoded = decode::decode(text.as_bytes(), schema, FieldValidation::Strict);
        let decoded = decoded.unwrap_or_else(|error| panic!("{name}: {error}"));
        let encoded = String::from_utf8(encode::encode(&decoded.object, schema)).expect("JSON is text");
        tested += 1;
        if encoded != compact(&text) {
            failed.push(difference(name, &encoded, &compact(&text)));
        }
    }
    assert!(failed.is_empty(), "{} of {tested} differ:\n{}", failed.len(), failed.join("\n"));
    assert!(tested > 70, "only {tested} kinds found");
}

/// Types that no API serves by itself, or groups that are off.
fn unserved(name: &str) -> bool {
    [
        "apidiscovery.",
        "imagepolicy.",
        "admission.",
        "core.v1.SerializedReference",
        "core.v1.RangeAllocation",
        "core.v1.PodStatusResult",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
        || name.ends_with("Options")
        || name.ends_with("WatchEvent")
}

fn difference(name: &str, ours: &str, theirs: &str) -> String {
    let at = ours
        .bytes()
        .zip(theirs.bytes())
        .position(|(a, b)| a != b)
        .unwrap_or_else(|| ours.len().min(theirs.len()));
    let around = |text: &str| -> String { text.chars().skip(at.saturating_sub(60)).take(120).collect() };
    format!("{name}:\n  ours   …{}\n  theirs …{}", around(ours), around(theirs))
}

#[test]
fn every_kind_has_upstreams_protobuf_form() {
    let Some(dir) = crate::module("k8s.io/api@v0.37.2/testdata/HEAD") else { return };
    let (mut tested, mut failed) = (0, Vec::new());
    for row in copepod_schema::resources() {
        let group = if row.group.is_empty() { "core" } else { &row.group };
        let stem = format!("{group}.{}.{}", row.version, row.kind);
        // No published test data for extension and aggregation kinds.
        let Ok(bytes) = fs::read(dir.join(format!("{stem}.pb"))) else { continue };
        let text = fs::read_to_string(dir.join(format!("{stem}.json"))).expect("the twin");
        let schema = builtin().model(&row.schema).expect("every row has one");
        let object = decode::decode(text.as_bytes(), schema, FieldValidation::Strict).expect("valid").object;
        tested += 1;
        if protobuf::encode(&object, schema) != bytes {
            failed.push(format!("{stem}: encoding differs"));
        }
        let decoded = protobuf::open(&bytes).and_then(|envelope| protobuf::decode(&envelope, schema));
        if decoded.as_ref() != Ok(&object) {
            let ours = decoded.map_or_else(|error| error.to_string(), |object| object.to_string());
            failed.push(difference(&stem, &ours, &object.to_string()));
        }
    }
    assert!(failed.is_empty(), "{tested} tested, these fail:\n{}", failed.join("\n"));
    assert!(tested > 60, "only {tested} kinds found");
}
