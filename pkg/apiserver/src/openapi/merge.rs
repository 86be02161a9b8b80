//! Another server's OpenAPI v2 document in ours.

use copepod_api::{ApiError, ApiResult};
use serde_json::{Map, Value};

/// Our document with those of other servers.
pub(super) fn all(document: &str, others: Vec<Value>) -> ApiResult<String> {
    let mut document = serde_json::from_str(document).map_err(ApiError::internal)?;
    others.into_iter().for_each(|other| v2(&mut document, other));
    Ok(document.to_string())
}

/// Adds the paths and definitions of `other`. What both have stays as it is here; a definition that means something
/// else there gets another name.
fn v2(document: &mut Value, mut other: Value) {
    let definitions = take(&mut other, "definitions");
    let mut renamed: Vec<(String, String)> = Vec::new();
    {
        let ours = child(document, "definitions");
        for (name, definition) in &definitions {
            if ours.get(name).is_some_and(|own| own != definition) {
                let free = (2..).map(|n| format!("{name}_v{n}"));
                let free = free.into_iter().find(|n| !ours.contains_key(n) && !definitions.contains_key(n));
                renamed.extend(free.map(|free| (name.clone(), free)));
            }
        }
    }
    for (name, mut definition) in definitions {
        rename(&mut definition, &renamed);
        let target = renamed.iter().find(|(from, _)| *from == name).map_or(name, |(_, to)| to.clone());
        child(document, "definitions").entry(target).or_insert(definition);
    }
    for (path, mut item) in take(&mut other, "paths") {
        if path.starts_with("/apis/") && path.matches('/').count() > 2 {
            rename(&mut item, &renamed);
            child(document, "paths").entry(path).or_insert(item);
        }
    }
}

fn take(document: &mut Value, field: &str) -> Map<String, Value> {
    match document.get_mut(field).map(Value::take) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

fn child<'a>(document: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !document[field].is_object() {
        document[field] = Value::Object(Map::new());
    }
    document[field].as_object_mut().expect("it was made an object above")
}

/// Follows renamed definitions in references.
fn rename(value: &mut Value, renamed: &[(String, String)]) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if key == "$ref"
                    && let Some(name) = value.as_str().and_then(|r| r.strip_prefix("#/definitions/"))
                    && let Some((_, to)) = renamed.iter().find(|(from, _)| from == name)
                {
                    *value = format!("#/definitions/{to}").into();
                } else {
                    rename(value, renamed);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|item| rename(item, renamed)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn definitions_that_differ_get_another_name() {
        let mut ours =
            json!({"paths": {"/apis/apps/v1/x": 1}, "definitions": {"A": {"type": "object"}, "B": {}}});
        let theirs = json!({
            "paths": {"/apis/w/v1/y": {"$ref": "#/definitions/A"}, "/apis/": 2, "/version/": 3},
            "definitions": {"A": {"type": "string"}, "B": {}, "C": {"$ref": "#/definitions/A"}},
        });
        v2(&mut ours, theirs);
        assert_eq!(ours["paths"]["/apis/w/v1/y"]["$ref"], "#/definitions/A_v2");
        assert_eq!(ours["definitions"]["C"]["$ref"], "#/definitions/A_v2");
        assert_eq!(
            (&ours["definitions"]["A"]["type"], &ours["definitions"]["A_v2"]["type"]),
            (&json!("object"), &json!("string"))
        );
        assert_eq!(ours["paths"].as_object().unwrap().len(), 2);
    }
}
