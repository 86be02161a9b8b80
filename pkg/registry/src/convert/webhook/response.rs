//! What a ConversionReview brought back, checked as upstream checks it.

use copepod_api::{FieldErrors, FieldPath, meta};
use serde_json::{Map, Value};

/// What a part of the metadata is called, and how it is read.
type Member = (&'static str, fn(&Value) -> &str);

/// The converted objects of an answer.
pub(super) fn objects(version: &str, uid: &str, mut answer: Value) -> Result<Vec<Value>, String> {
    let text = |value: &Value, path: &str| {
        value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (got_version, got_kind) = (text(&answer, "/apiVersion"), text(&answer, "/kind"));
    if version == "v1" && (got_version != "apiextensions.k8s.io/v1" || got_kind != "ConversionReview") {
        let got_version = if got_version.is_empty() { "/".to_owned() } else { got_version };
        return Err(format!(
            "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got {got_version}, Kind={got_kind}"
        ));
    }
    if answer.get("response").is_none_or(Value::is_null) {
        return Err("no response provided".to_owned());
    }
    let got = text(&answer, "/response/uid");
    if version == "v1" && got != uid {
        let quote = copepod_api::field::quote;
        return Err(format!("expected response.uid={}, got {}", quote(uid), quote(&got)));
    }
    let status = text(&answer, "/response/result/status");
    if status != "Success" {
        let message = text(&answer, "/response/result/message");
        let plain = format!("response.result.status was '{status}', not 'Success'");
        return Err(if message.is_empty() { plain } else { message });
    }
    match answer.pointer_mut("/response/convertedObjects").map(Value::take) {
        Some(Value::Array(list)) => Ok(list),
        _ => Ok(Vec::new()),
    }
}

/// A converted object with the metadata it had, but for labels and annotations, which a webhook may change.
pub(super) fn accept(original: &Value, mut new: Value, to: &str, at: usize) -> Result<Value, String> {
    let text =
        |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let invalid = |why: String| format!("invalid converted object at index {at}: {why}");
    let version = text(&new, "apiVersion");
    if version != to {
        return Err(invalid(format!("invalid groupVersion (expected {to}, received {version})")));
    }
    let (kind, wanted) = (text(&new, "kind"), text(original, "kind"));
    if kind != wanted {
        return Err(invalid(format!("invalid kind (expected {wanted}, received {kind})")));
    }
    let same: [Member; 3] = [("name", meta::name), ("namespace", meta::namespace), ("UID", meta::uid)];
    for (what, of) in same {
        let (before, after) = (of(original), of(&new));
        if before != after {
            return Err(invalid(format!("must have the same {what}: {before} != {after}")));
        }
    }
    let bad = |why: String| format!("invalid metadata in object at index {at}: {why}");
    restore(original, &mut new).map_err(bad)?;
    Ok(new)
}

fn restore(original: &Value, new: &mut Value) -> Result<(), String> {
    let given = match new.get_mut("metadata").map(Value::take) {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(Value::Object(given)) => given,
        Some(_) => return Err("invalid metadata in converted object".to_owned()),
    };
    let mut metadata = original.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        match given.get(field) {
            None | Some(Value::Null) => drop(metadata.remove(field)),
            Some(Value::Object(map)) => {
                check(field, map)?;
                metadata.insert(field.to_owned(), Value::Object(map.clone()));
            }
            Some(_) => return Err(format!("invalid metadata.{field} in converted object")),
        }
    }
    new["metadata"] = Value::Object(metadata);
    Ok(())
}

fn check(field: &str, map: &Map<String, Value>) -> Result<(), String> {
    if let Some((key, _)) = map.iter().find(|(_, value)| !value.is_string()) {
        return Err(format!("metadata.{field}[{key}] must be a string in converted object"));
    }
    let path = FieldPath::new("metadata").child(field);
    let mut errors = FieldErrors::new();
    for (key, value) in map {
        let name = if field == "labels" { key.clone() } else { key.to_lowercase() };
        let mut texts = copepod_api::names::qualified_name(&name);
        if field == "labels" {
            texts.extend(copepod_api::names::label_value(value.as_str().unwrap_or_default()));
        }
        errors.extend(texts.into_iter().map(|t| copepod_api::FieldError::invalid(&path, key.as_str(), t)));
    }
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.to_string()),
        more => Err(format!("[{}]", more.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_checked() {
        let answer = |response: Value| json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response});
        let good = answer(json!({"uid": "u", "result": {"status": "Success"}, "convertedObjects": [{}]}));
        assert_eq!(objects("v1", "u", good.clone()).unwrap().len(), 1);
        assert_eq!(objects("v1", "v", good).unwrap_err(), "expected response.uid=\"v\", got \"u\"");
        let failed = answer(json!({"uid": "u", "result": {"status": "Failed", "message": "no"}}));
        assert_eq!(objects("v1", "u", failed).unwrap_err(), "no");
        let silent = objects("v1beta1", "", json!({"response": {}})).unwrap_err();
        assert_eq!(silent, "response.result.status was '', not 'Success'");
    }

    #[test]
    fn metadata_comes_back_as_it_was() {
        let original = json!({"kind": "A", "apiVersion": "x/v1", "metadata": {"name": "n", "uid": "u", "generation": 3, "labels": {"a": "b"}}});
        let new = json!({"kind": "A", "apiVersion": "x/v2", "metadata": {"name": "n", "uid": "u", "annotations": {"k": "v"}}, "spec": 1});
        let accepted = accept(&original, new.clone(), "x/v2", 0).unwrap();
        assert_eq!(
            accepted["metadata"],
            json!({"name": "n", "uid": "u", "generation": 3, "annotations": {"k": "v"}})
        );
        let error = accept(&original, new, "x/v3", 0).unwrap_err();
        assert!(error.contains("invalid groupVersion (expected x/v3, received x/v2)"), "{error}");
    }
}
