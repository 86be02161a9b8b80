//! Who owns the replicas of an object, as owners of its Scale's, and back. Pure.

use copepod_api::meta;
use serde_json::{Value, json};

fn entries(object: &Value) -> &[Value] {
    object.pointer("/metadata/managedFields").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The field set of one path.
fn field_set(path: &[String]) -> Value {
    path.iter().rev().fold(json!({}), |inner, step| {
        let mut outer = json!({});
        outer[format!("f:{step}")] = inner;
        outer
    })
}

fn has(entry: &Value, path: &[String]) -> bool {
    let steps = path.iter().map(|step| format!("f:{step}"));
    entry.get("fieldsV1").is_some_and(|set| {
        let mut at = Some(set);
        steps.into_iter().for_each(|step| at = at.and_then(|at| at.get(&step)));
        at.is_some()
    })
}

/// Removes a path, and what is empty without it; whether nothing is left.
fn remove(set: &mut Value, path: &[String]) -> bool {
    let (Some((step, rest)), Some(map)) = (path.split_first(), set.as_object_mut()) else { return true };
    let key = format!("f:{step}");
    let empty = map.get_mut(&key).is_none_or(|inner| remove(inner, rest));
    if empty {
        map.remove(&key);
    }
    map.is_empty()
}

fn replicas() -> Vec<String> {
    vec!["spec".to_owned(), "replicas".to_owned()]
}

/// Gives a Scale the owners that its object's replicas have.
pub(super) fn give(scale: &mut Value, object: &Value, path: &[String]) {
    let owners = entries(object).iter().filter(|entry| has(entry, path)).map(|entry| {
        let mut owner = entry.clone();
        owner["apiVersion"] = "autoscaling/v1".into();
        owner["fieldsV1"] = field_set(&replicas());
        owner
    });
    let owners: Vec<Value> = owners.collect();
    if !owners.is_empty() {
        meta::metadata_mut(scale).insert("managedFields".to_owned(), owners.into());
    }
}

/// An applier is one whatever the version; an updater is one for each.
fn same_applier(a: &Value, b: &Value) -> bool {
    let keys = ["manager", "operation", "subresource"];
    text(a, "operation") == "Apply" && keys.iter().all(|key| text(a, key) == text(b, key))
}

/// Takes over into an object who owns the replicas of its new Scale.
pub(super) fn take(object: &mut Value, scale: &Value, path: &[String]) {
    let api_version = text(object, "apiVersion").to_owned();
    let mut new: Vec<Value> =
        entries(scale).iter().filter(|entry| has(entry, &replicas())).cloned().collect();
    let mut kept = Vec::new();
    for entry in entries(object) {
        let mut entry = entry.clone();
        if !has(&entry, path) {
            kept.push(entry);
        } else if let Some(at) = new.iter().position(|owner| same_applier(owner, &entry)) {
            new.remove(at);
            kept.push(entry);
        } else if !remove(&mut entry["fieldsV1"], path) {
            kept.push(entry);
        }
    }
    for mut owner in new {
        owner["apiVersion"] = api_version.as_str().into();
        owner["fieldsV1"] = field_set(path);
        // Upstream does not carry the time over.
        owner.as_object_mut().and_then(|map| map.remove("time"));
        kept.push(owner);
    }
    let key = |entry: &Value| {
        ["operation", "time", "manager", "apiVersion", "subresource"].map(|key| text(entry, key).to_owned())
    };
    kept.sort_by_key(key);
    let metadata = meta::metadata_mut(object);
    if kept.is_empty() {
        metadata.remove("managedFields");
    } else {
        metadata.insert("managedFields".to_owned(), kept.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, set: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "time": "t",
            "fieldsType": "FieldsV1", "fieldsV1": set})
    }

    #[test]
    fn replicas_change_hands() {
        let whole = json!({"f:spec": {"f:replicas": {}, "f:paused": {}}});
        let mut object = json!({"apiVersion": "apps/v1",
            "metadata": {"managedFields": [entry("one", "Apply", whole)]}, "spec": {"replicas": 2}});
        let mut scale = json!({"metadata": {}});
        give(&mut scale, &object, &replicas());
        assert_eq!(entries(&scale).len(), 1);
        assert_eq!(entries(&scale)[0]["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
        let mut unchanged = object.clone();
        take(&mut unchanged, &scale, &replicas());
        assert_eq!(unchanged, object);
        let hpa = json!({"manager": "hpa", "operation": "Update", "apiVersion": "autoscaling/v1",
            "subresource": "scale", "time": "t", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
        scale["metadata"]["managedFields"] = json!([hpa]);
        take(&mut object, &scale, &replicas());
        let [one, hpa] = entries(&object) else { panic!("two owners") };
        assert_eq!(one["fieldsV1"], json!({"f:spec": {"f:paused": {}}}));
        assert_eq!((text(hpa, "apiVersion"), text(hpa, "subresource")), ("apps/v1", "scale"));
        assert!(hpa.get("time").is_none());
    }
}
