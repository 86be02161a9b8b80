//! Upstream's table tests of strategic merge patch, read from its test source.

use std::{collections::HashMap, fs};

use copepod_schema::{SchemaSet, patch};
use serde_json::{Value, json};

/// The types of upstream's tests, in our table's notation; `mergeItemPtr` is used as a list there.
const TYPES: &str = "test.v1.MergeItem
 name 0 o string
 value 0 o string
 other 0 o string
 mergingList 0 o []@.MergeItem patch=merge key=name
 nonMergingList 0 o []@.MergeItem
 mergingIntList 0 o []int64 patch=merge
 nonMergingIntList 0 o []int64
 mergeItemPtr 0 po []@.MergeItem patch=merge key=name
 simpleMap 0 o {}string
 replacingItem 0 o raw patch=replace
 jsonItem 0 o raw
 retainKeysMap 0 o @.RetainKeysMergeItem patch=retainKeys
 retainKeysMergingList 0 o []@.MergeItem patch=merge,retainKeys key=name
test.v1.RetainKeysMergeItem
 name 0 o string
 value 0 o string
 other 0 o string
 simpleMap 0 o {}string
 mergingIntList 0 o []int64 patch=merge
 mergingList 0 o []@.MergeItem patch=merge key=name
 nonMergingList 0 o []@.MergeItem
";

#[derive(Default)]
struct Case {
    description: String,
    fields: HashMap<String, String>,
}

/// The cases of `Description: …` blocks whose members are raw byte strings.
fn cases(source: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut rest = source;
    while let Some(line) = rest.lines().next() {
        let trimmed = line.trim();
        let mut consumed = line.len() + 1;
        if let Some(text) = trimmed.strip_prefix("Description: \"") {
            let description = text.trim_end_matches("\",").to_owned();
            cases.push(Case { description, fields: HashMap::new() });
        } else if let (Some((name, first)), Some(case)) = (trimmed.split_once(":"), cases.last_mut()) {
            let first = first.trim_start();
            if first.starts_with("[]byte(`") {
                let start = line.find('`').expect("seen") + 1;
                let body = rest.get(start..).expect("a character boundary");
                let end = body.find('`').expect("closed");
                case.fields.insert(name.to_owned(), body.chars().take_while(|c| *c != '`').collect());
                consumed = start + end + 1;
            } else if let Some(text) = first.strip_prefix('"') {
                case.fields.insert(name.to_owned(), text.trim_end_matches("\",").to_owned());
            }
        }
        rest = rest.get(consumed..).unwrap_or_default();
    }
    cases
}

fn yaml(text: &str) -> Value {
    let text = text.replace('\t', "");
    let value: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    if value.is_null() { json!({}) } else { value }
}

#[test]
fn upstream_table_tests_pass() {
    let Some(dir) = crate::module("k8s.io/apimachinery@v0.37.2/pkg/util/strategicpatch") else { return };
    let source = fs::read_to_string(dir.join("patch_test.go")).expect("read");
    let set = SchemaSet::from_table(TYPES);
    let schema = set.model("test.v1.MergeItem").expect("in the table");
    let (mut tested, mut failed) = (0, Vec::new());
    for case in cases(&source) {
        let get = |name: &str| case.fields.get(name).map(String::as_str);
        let two_way = (get("Original"), get("TwoWay"), get("TwoWayResult").or_else(|| get("Modified")));
        let three_way = (get("Current"), get("ThreeWay"), get("Result"));
        for (from, patch, to) in [two_way, three_way] {
            let (Some(from), Some(patch), Some(to)) = (from, patch, to) else { continue };
            tested += 1;
            let result = patch::strategic(&yaml(from), &yaml(patch), schema);
            let right = match (&result, get("ExpectedError")) {
                (Err(error), Some(expected)) => error.to_string().contains(expected),
                (Ok(object), None) => *object == yaml(to),
                _ => false,
            };
            if !right {
                failed.push(format!(
                    "{}:\n{from}\n{patch}\nexpected {}\ngot {result:?}",
                    case.description,
                    yaml(to)
                ));
            }
        }
    }
    assert!(failed.is_empty(), "{} of {tested} fail\n{}", failed.len(), failed.join("\n"));
    assert!(tested > 100, "only {tested} cases found");
}
