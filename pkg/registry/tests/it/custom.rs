//! Custom resources: from the definition to its objects and back.

use copepod_api::{ApiResult, GroupVersionResource, Reason, meta};
use copepod_registry::{DeleteOptions, ListOptions, PatchKind, Store};
use serde_json::{Value, json};

use crate::rig::{Rig, create, cx, delete, get, patch, rig, update};

fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1}, "color": {"type": "string", "default": "red"},
            "replicas": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "note": {"type": "string"}}},
    }});
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
            "selectableFields": [{"jsonPath": ".spec.color"}],
        })
    };
    json!({
        "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
                 "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
                 "versions": [version("v1", true), version("v2", false)]},
    })
}

async fn established(rig: &Rig) -> (Store, Store) {
    let definitions = rig.store("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let mut rows = rig.registry.changed();
    create(&definitions, &definition()).await.unwrap();
    tokio::time::timeout(std::time::Duration::from_secs(5), rows.changed()).await.unwrap().unwrap();
    (definitions, rig.store("example.com", "v1", "widgets"))
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": name}, "spec": spec})
}

async fn soon<T>(mut check: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..200 {
        if let Some(found) = check().await {
            return found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("it did not happen in time")
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_a_definition() {
    let rig = rig().await;
    let (definitions, store) = established(&rig).await;
    let defined = soon(async || {
        let found = get(&definitions, "widgets.example.com").await.unwrap();
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True").then_some(found)
    })
    .await;
    assert_eq!(defined["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(defined["status"]["acceptedNames"]["listKind"], "WidgetList");

    let made = create(&store, &widget("a", json!({"size": 3, "other": 1}))).await.unwrap();
    assert_eq!(made["spec"], json!({"size": 3, "color": "red"}), "defaulted and pruned");
    assert_eq!(made["metadata"]["generation"], 1);
    let error = create(&store, &widget("b", json!({"size": 0}))).await.unwrap_err();
    assert!(error.is(Reason::Invalid), "{error}");
    assert!(error.to_string().contains("spec.size"), "{error}");

    let mut changed = made.clone();
    changed["spec"]["size"] = 4.into();
    changed["status"] = json!({"note": "ignored"});
    let changed = update(&store, &changed, None).await.unwrap();
    assert_eq!((&changed["metadata"]["generation"], changed.get("status")), (&json!(2), None));
    let mut status = changed.clone();
    status["spec"]["size"] = 9.into();
    status["status"] = json!({"note": "kept", "replicas": 2});
    let status = update(&store, &status, Some("status")).await.unwrap();
    assert_eq!((&status["spec"]["size"], &status["status"]["note"]), (&json!(4), &json!("kept")));
    assert_eq!(status["metadata"]["generation"], 2);

    let error = patch(&store, "a", PatchKind::Strategic, &json!({})).await.unwrap_err();
    assert!(error.is(Reason::UnsupportedMediaType), "{error}");
    let second = rig.store("example.com", "v2", "widgets");
    let seen = get(&second, "a").await.unwrap();
    assert_eq!((&seen["apiVersion"], &seen["spec"]["size"]), (&json!("example.com/v2"), &json!(4)));

    let red = ListOptions { field_selector: "spec.color=red".to_owned(), ..ListOptions::default() };
    let list = store.list(&cx(), None, &red).await.unwrap();
    let bytes: Value = serde_json::from_slice(&list.to_bytes()).unwrap();
    assert_eq!(bytes["items"][0]["kind"], "Widget", "items of custom lists carry their kind");

    delete(&definitions, "widgets.example.com", &DeleteOptions::default()).await.unwrap();
    soon(async || get(&definitions, "widgets.example.com").await.err().filter(|e| e.is(Reason::NotFound)))
        .await;
    soon(async || {
        rig.registry.row(&GroupVersionResource::new("example.com", "v1", "widgets")).is_none().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scale_of_a_custom_resource() -> ApiResult<()> {
    let rig = rig().await;
    let (_, store) = established(&rig).await;
    create(&store, &widget("a", json!({"size": 1, "replicas": 2}))).await?;
    let target = copepod_registry::Target::new(Some("default"), "a").sub("scale");
    let mut scale = store.get(&cx(), &target, "").await?.to_value();
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(2)));
    scale["spec"]["replicas"] = 5.into();
    let scaled = store.update(&cx(), &target, crate::rig::json_body(&scale)).await?.object.to_value();
    assert_eq!(scaled["spec"]["replicas"], 5);
    let object = get(&store, "a").await?;
    assert_eq!((&object["spec"]["replicas"], meta::generation(&object)), (&json!(5), 2));
    Ok(())
}
