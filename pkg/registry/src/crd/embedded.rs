//! Resources within custom resources (`x-kubernetes-embedded-resource`): they must say what they are, and their metadata
//! is judged as that of any object.

use copepod_api::{FieldError, FieldErrors, FieldPath, GroupVersion, meta, names};
use copepod_schema::SchemaRef;
use serde_json::{Map, Value};

use crate::metadata;

/// What is wrong with the resources below the root of an object.
pub(crate) fn validate(object: &Value, schema: SchemaRef<'_>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    below(object, schema, &FieldPath::root(), &mut errors);
    errors
}

fn node(value: &Value, schema: SchemaRef<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    if let Value::Object(map) = value
        && schema.is_embedded_resource()
    {
        head(map, path, errors);
        errors.extend(metadata_of(value, path));
    }
    below(value, schema, path, errors);
}

fn below(value: &Value, schema: SchemaRef<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    if schema.is_typed() {
        return;
    }
    schema.parts(value, path, |value, schema, path| node(value, schema, path, errors));
}

fn head(map: &Map<String, Value>, path: &FieldPath, errors: &mut FieldErrors) {
    for field in ["apiVersion", "kind"] {
        let at = path.child(field);
        match map.get(field) {
            None => errors.push(FieldError::required(&at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(&at, "", "must not be empty"));
            }
            Some(Value::String(text)) => errors.extend(wrong(field, text, &at)),
            Some(other) => errors.push(FieldError::invalid(&at, other.clone(), "must be a string")),
        }
    }
}

fn wrong(field: &str, text: &str, at: &FieldPath) -> Option<FieldError> {
    if field == "apiVersion" {
        let why = format!("unexpected GroupVersion string: {text}");
        return GroupVersion::parse(text).is_none().then(|| FieldError::invalid(at, text, why));
    }
    let found = names::dns1035_label(&text.to_lowercase());
    let why = format!("may have mixed case, but should otherwise match: {}", found.join(","));
    (!found.is_empty()).then(|| FieldError::invalid(at, text, why))
}

fn metadata_of(value: &Value, path: &FieldPath) -> FieldErrors {
    if value.get("metadata").is_none_or(Value::is_null) {
        return FieldErrors::new();
    }
    let mut object = value.clone();
    if meta::name(&object).is_empty() {
        // A name is not asked for here.
        meta::metadata_mut(&mut object).insert("name".to_owned(), "fakename".into());
    }
    let namespaced = !meta::namespace(&object).is_empty();
    let mut errors = metadata::validate(&object, namespaced, names::path_segment);
    errors.iter_mut().for_each(|error| error.field = path.join(&error.field));
    errors
}

#[cfg(test)]
mod tests {
    use copepod_schema::SchemaSet;
    use serde_json::json;

    use super::*;

    #[test]
    fn resources_within_are_judged() {
        let schema = json!({"type": "object", "properties": {"t": {
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}});
        let set = SchemaSet::from_crd(&schema, &FieldPath::root()).expect("structural");
        let texts = |object: Value| -> Vec<String> {
            validate(&object, set.root().expect("a root")).iter().map(ToString::to_string).collect()
        };
        assert_eq!(texts(json!({"t": {}})), ["t.apiVersion: Required value", "t.kind: Required value"]);
        let bad =
            texts(json!({"t": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a b": "c"}}}}));
        assert!(bad.len() == 1 && bad[0].starts_with("t.metadata.labels: Invalid value: \"a b\""), "{bad:?}");
        assert!(texts(json!({"t": {"apiVersion": "v1", "kind": "Pod"}})).is_empty());
    }
}
