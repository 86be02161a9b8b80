//! What discovery and OpenAPI take over from other servers.

use serde_json::{Map, Value, json};

/// The resources of an APIResourceList as aggregated discovery shows them.
pub(super) fn resources(list: &Value) -> Value {
    let items = list.get("resources").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text =
        |item: &'_ Value, field: &str| item.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let scope = |item: &Value| if item["namespaced"] == true { "Namespaced" } else { "Cluster" };
    let kind = |item: &Value| json!({"group": text(item, "group"), "version": text(item, "version"), "kind": text(item, "kind")});
    let mut out: Vec<Map<String, Value>> = Vec::new();
    for item in items.iter().filter(|item| !text(item, "name").contains('/')) {
        let mut resource = Map::new();
        let mut set = |field: &str, value: Value| drop(resource.insert(field.to_owned(), value));
        set("resource", text(item, "name").into());
        set("responseKind", kind(item));
        set("scope", scope(item).into());
        set("singularResource", text(item, "singularName").into());
        set("verbs", item.get("verbs").cloned().unwrap_or_else(|| json!([])));
        for field in ["shortNames", "categories"] {
            if let Some(list) = item.get(field).filter(|l| l.is_array()) {
                set(field, list.clone());
            }
        }
        out.push(resource);
    }
    for item in items {
        let name = text(item, "name");
        let Some((parent, sub)) = name.split_once('/') else { continue };
        let entry = json!({
            "subresource": sub, "verbs": item.get("verbs").cloned().unwrap_or_else(|| json!([])),
            "responseKind": if text(item, "kind").is_empty() {
                json!({"group": "", "version": "", "kind": ""})
            } else {
                kind(item)
            },
        });
        let at = out.iter().position(|r| r["resource"] == parent);
        let resource = match at.and_then(|at| out.get_mut(at)) {
            Some(resource) => resource,
            None => {
                let alone = json!({"resource": parent, "scope": scope(item), "verbs": null,
                    "singularResource": "", "responseKind": {"group": "", "version": "", "kind": ""}});
                out.push(alone.as_object().cloned().unwrap_or_default());
                let Some(last) = out.last_mut() else { continue };
                last
            }
        };
        let list = resource.entry("subresources").or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut() {
            list.push(entry);
        }
    }
    out.into_iter().map(Value::Object).collect::<Vec<_>>().into()
}

/// The address of the OpenAPI v3 document of a group and version in a server's index.
pub(super) fn openapi(index: &Value, group: &str, version: &str) -> Option<String> {
    let entry = index.get("paths")?.get(format!("apis/{group}/{version}"))?;
    entry.get("serverRelativeURL").and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_become_trees() {
        let list = json!({"resources": [
            {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder", "verbs": ["get"], "shortNames": ["fl"]},
            {"name": "flunders/status", "singularName": "", "namespaced": true, "kind": "Flunder", "verbs": ["update"]}]});
        let resources = resources(&list);
        assert_eq!(resources[0]["scope"], "Namespaced");
        assert_eq!(resources[0]["responseKind"], json!({"group": "", "version": "", "kind": "Flunder"}));
        assert_eq!(resources[0]["subresources"][0]["subresource"], "status");
        let index = json!({"paths": {"apis/a/v1": {"serverRelativeURL": "/openapi/v3/apis/a/v1?hash=X"}}});
        assert_eq!(openapi(&index, "a", "v1").as_deref(), Some("/openapi/v3/apis/a/v1?hash=X"));
        assert_eq!(openapi(&index, "a", "v2"), None);
    }
}
