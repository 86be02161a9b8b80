//! How the refusal of a patch shows its result: upstream's patches take apart only what they touch, so that the keys of
//! what they took apart are sorted and all else is as its struct was written.

use std::collections::BTreeSet;

use serde::ser::{Serialize, Serializer};
use serde_json::Value;

use super::json::Operation;
use crate::{encode::Ordered, node::SchemaRef};

/// The result of a merge patch.
pub(super) fn merged(result: &Value, patch: &Value, schema: SchemaRef<'_>) -> String {
    text(&Merged { result, patch: Some(patch), schema: structs(schema) })
}

/// The result of a JSON patch.
pub(super) fn operated(result: &Value, operations: &[Operation], schema: SchemaRef<'_>) -> String {
    let mut touched = Touched::default();
    for operation in operations {
        operation.pointers().for_each(|pointer| touched.add(pointer));
    }
    text(&Operated { value: result, at: String::new(), touched: &touched, schema: structs(schema) })
}

/// Custom resources are maps, not structs.
fn structs(schema: SchemaRef<'_>) -> Option<SchemaRef<'_>> {
    schema.is_typed().then_some(schema)
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a tree has string keys")
}

struct Merged<'a> {
    result: &'a Value,
    patch: Option<&'a Value>,
    schema: Option<SchemaRef<'a>>,
}

impl Serialize for Merged<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.result, self.patch) {
            (value, None) => Ordered { value, schema: self.schema }.serialize(serializer),
            (Value::Object(map), Some(Value::Object(patch))) => {
                serializer.collect_map(map.iter().map(|(key, result)| {
                    let schema = self.schema.and_then(|schema| schema.child(key));
                    (key, Self { result, patch: patch.get(key), schema })
                }))
            }
            (value, Some(_)) => value.serialize(serializer),
        }
    }
}

/// Pointers to what operations took apart and to what they put in.
#[derive(Default)]
struct Touched {
    opened: BTreeSet<String>,
    set: BTreeSet<String>,
}

impl Touched {
    fn add(&mut self, pointer: &str) {
        let ends = pointer.char_indices().filter(|(_, c)| *c == '/').map(|(at, _)| at);
        self.opened.extend(ends.filter_map(|at| pointer.get(..at)).map(str::to_owned));
        self.set.insert(pointer.to_owned());
    }
}

struct Operated<'a> {
    value: &'a Value,
    at: String,
    touched: &'a Touched,
    schema: Option<SchemaRef<'a>>,
}

impl Operated<'_> {
    fn below<'a>(&'a self, step: &str, value: &'a Value, schema: Option<SchemaRef<'a>>) -> Operated<'a> {
        let step = step.replace('~', "~0").replace('/', "~1");
        Operated { value, at: format!("{}/{step}", self.at), touched: self.touched, schema }
    }
}

impl Serialize for Operated<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let opened = self.touched.opened.contains(&self.at);
        match self.value {
            Value::Object(map) if opened => serializer.collect_map(map.iter().map(|(key, value)| {
                (key, self.below(key, value, self.schema.and_then(|schema| schema.child(key))))
            })),
            Value::Array(list) if opened => {
                serializer.collect_seq(list.iter().enumerate().map(|(at, value)| {
                    self.below(&at.to_string(), value, self.schema.and_then(SchemaRef::items))
                }))
            }
            value if self.touched.set.contains(&self.at) => value.serialize(serializer),
            value => Ordered { value, schema: self.schema }.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::builtin;

    #[test]
    fn what_is_not_touched_keeps_its_order() {
        let schema = builtin().kind("", "v1", "ConfigMap").expect("built in");
        let result = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"a": "b"},
            "metadata": {"name": "n", "annotations": {"x": "y"}, "labels": {"l": "m"}}});
        let untouched = r#"{"apiVersion":"v1","data":{"a":"b"},"kind":"ConfigMap","metadata":{"name":"n","labels":{"l":"m"},"annotations":{"x":"y"}}}"#;
        let sorted = r#"{"apiVersion":"v1","data":{"a":"b"},"kind":"ConfigMap","metadata":{"annotations":{"x":"y"},"labels":{"l":"m"},"name":"n"}}"#;
        assert_eq!(merged(&result, &json!({"data": {"a": "b"}}), schema), untouched);
        assert_eq!(merged(&result, &json!({"metadata": {"labels": {"l": "m"}}}), schema), sorted);
        let operations = |path: &str| {
            super::super::json::operations(
                json!([{"op": "add", "path": path, "value": "b"}]).to_string().as_bytes(),
                crate::decode::FieldValidation::Warn,
            )
            .expect("a patch")
        };
        assert_eq!(operated(&result, &operations("/data/a"), schema), untouched);
        assert_eq!(operated(&result, &operations("/metadata/labels/l"), schema), sorted);
    }
}
