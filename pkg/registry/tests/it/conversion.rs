//! Conversion of custom resources by a webhook, here a function: `hostPort` of v1 is `host` and `port` of v2.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use copepod_api::Reason;
use copepod_registry::{
    ConversionCaller, DeleteOptions, ListOptions, PatchKind, Registry, RegistryConfig, Store, WatchKind,
};
use copepod_store::MemoryBackend;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::rig::{create, cx, delete, get, next, patch, update};

#[derive(Default)]
struct Converter {
    calls: AtomicUsize,
}

fn convert(mut object: Value, to: &str) -> Value {
    let map = object.as_object_mut().unwrap();
    map.insert("apiVersion".to_owned(), to.into());
    if to == "example.com/v2" {
        if let Some(both) = map.remove("hostPort").and_then(|v| v.as_str().map(str::to_owned)) {
            let (host, port) = both.split_once(':').unwrap_or((&both, ""));
            map.insert("host".to_owned(), host.into());
            map.insert("port".to_owned(), port.into());
        }
    } else if let Some(host) = map.remove("host") {
        let port = map.remove("port").unwrap_or_default();
        let both = format!("{}:{}", host.as_str().unwrap(), port.as_str().unwrap_or_default());
        map.insert("hostPort".to_owned(), both.into());
    }
    object
}

impl ConversionCaller for Converter {
    fn call<'a>(&'a self, config: &'a Value, review: Value) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::Relaxed);
            if config["url"] != "https://hook.example.com/convert" {
                return Err("Post \"?\": EOF".to_owned());
            }
            let request = &review["request"];
            let to = request["desiredAPIVersion"].as_str().unwrap();
            let objects: Vec<Value> =
                request["objects"].as_array().unwrap().iter().map(|o| convert(o.clone(), to)).collect();
            Ok(json!({
                "kind": "ConversionReview", "apiVersion": review["apiVersion"],
                "response": {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects},
            }))
        })
    }
}

/// Without a URL only `apiVersion` is converted.
fn definition(stored: &str, url: &str) -> Value {
    let webhook = json!({"strategy": "Webhook", "webhook": {
        "clientConfig": {"url": url}, "conversionReviewVersions": ["v1", "v1beta1"]}});
    let conversion = if url.is_empty() { json!({"strategy": "None"}) } else { webhook };
    let text = json!({"type": "string"});
    let version = |name: &str, fields: &[&str]| {
        let properties: Value =
            fields.iter().map(|f| ((*f).to_owned(), text.clone())).collect::<serde_json::Map<_, _>>().into();
        json!({
            "name": name, "served": true, "storage": name == stored,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
            "selectableFields": fields.iter().map(|f| json!({"jsonPath": format!(".{f}")})).collect::<Vec<_>>(),
        })
    };
    json!({
        "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "places.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "places", "kind": "Place"},
            "conversion": conversion,
            "versions": [version("v1", &["hostPort"]), version("v2", &["host", "port"])]},
    })
}

struct Places {
    registry: Arc<Registry>,
    converter: Arc<Converter>,
    _stop: tokio_util::sync::DropGuard,
}

impl Places {
    async fn open() -> Self {
        let stop = CancellationToken::new();
        let converter = Arc::new(Converter::default());
        let config = RegistryConfig {
            compaction: None,
            conversions: Some(Arc::clone(&converter) as Arc<dyn ConversionCaller>),
            ..RegistryConfig::default()
        };
        let registry = Registry::open(Arc::new(MemoryBackend::default()), config, &stop);
        registry.ready().await;
        Self { registry, converter, _stop: stop.drop_guard() }
    }

    fn store(&self, group: &str, version: &str, resource: &str) -> Store {
        self.registry.store(&copepod_api::GroupVersionResource::new(group, version, resource)).unwrap()
    }

    async fn define(&self, stored: &str, url: &str) {
        let definitions = self.store("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        let mut rows = self.registry.changed();
        rows.borrow_and_update();
        let mut wanted = definition(stored, url);
        if get(&definitions, "places.example.com").await.is_err() {
            create(&definitions, &wanted).await.unwrap();
        } else {
            // The server writes the status of a definition when it likes.
            let mut tries = 0;
            loop {
                wanted["metadata"] =
                    get(&definitions, "places.example.com").await.unwrap()["metadata"].clone();
                match update(&definitions, &wanted, None).await {
                    Ok(_) => break,
                    Err(error) if error.is(Reason::Conflict) && tries < 20 => tries += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        let patience = std::time::Duration::from_secs(5);
        tokio::time::timeout(patience, rows.changed()).await.unwrap().unwrap();
        // That may have been the status of the definition before.
        while self.places("v1").def().storage_version != stored {
            tokio::time::timeout(patience, rows.changed()).await.unwrap().unwrap();
        }
    }

    fn places(&self, version: &str) -> Store {
        self.store("example.com", version, "places")
    }
}

const URL: &str = "https://hook.example.com/convert";

fn place(name: &str, version: &str, fields: Value) -> Value {
    let mut object =
        json!({"kind": "Place", "apiVersion": format!("example.com/{version}"), "metadata": {"name": name}});
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_in_every_version() {
    let rig = Places::open().await;
    rig.define("v1", URL).await;
    let (v1, v2) = (rig.places("v1"), rig.places("v2"));
    let made = create(&v2, &place("a", "v2", json!({"host": "h", "port": "80"}))).await.unwrap();
    assert_eq!((&made["host"], &made["apiVersion"]), (&json!("h"), &json!("example.com/v2")));
    assert_eq!(get(&v1, "a").await.unwrap()["hostPort"], "h:80");
    let again = get(&v2, "a").await.unwrap();
    assert_eq!((&again["port"], &again["metadata"]), (&json!("80"), &made["metadata"]));

    let patched = patch(&v2, "a", PatchKind::Merge, &json!({"port": "81"})).await.unwrap();
    assert_eq!((&patched["host"], &patched["port"]), (&json!("h"), &json!("81")));
    assert_eq!(get(&v1, "a").await.unwrap()["hostPort"], "h:81");
    let same = update(&v2, &patched, None).await.unwrap();
    assert_eq!(
        same["metadata"]["resourceVersion"], patched["metadata"]["resourceVersion"],
        "nothing changed"
    );

    // The stored version moves: old and new objects stand side by side.
    rig.define("v2", URL).await;
    let (v1, v2) = (rig.places("v1"), rig.places("v2"));
    create(&v1, &place("b", "v1", json!({"hostPort": "g:90"}))).await.unwrap();
    let list = v2.list(&cx(), None, &ListOptions::default()).await.unwrap();
    let items: Value = serde_json::from_slice(&list.to_bytes()).unwrap();
    let hosts: Vec<&Value> = items["items"].as_array().unwrap().iter().map(|i| &i["host"]).collect();
    assert_eq!(hosts, ["h", "g"]);
    assert!(items["items"].as_array().unwrap().iter().all(|i| i["apiVersion"] == "example.com/v2"));
    // An update without a change writes the object in the new version.
    let old = get(&v2, "a").await.unwrap();
    let rewritten = update(&v2, &old, None).await.unwrap();
    assert_ne!(rewritten["metadata"]["resourceVersion"], old["metadata"]["resourceVersion"]);
    let before = rig.converter.calls.load(Ordering::Relaxed);
    assert_eq!(get(&v2, "a").await.unwrap()["host"], "h");
    assert_eq!(rig.converter.calls.load(Ordering::Relaxed), before, "stored as it is served");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_stored_before_its_version_was_has_the_version_it_is_asked_in() {
    let rig = Places::open().await;
    rig.define("v1", "").await;
    create(&rig.places("v1"), &place("a", "v1", json!({"hostPort": "h:80"}))).await.unwrap();
    rig.define("v2", "").await;
    let v2 = rig.places("v2");
    assert_eq!(get(&v2, "a").await.unwrap()["apiVersion"], "example.com/v2");
    let added = json!([{"op": "add", "path": "/port", "value": "80"}]);
    assert_eq!(patch(&v2, "a", PatchKind::Json, &added).await.unwrap()["port"], "80");
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_are_selected_after_conversion() {
    let rig = Places::open().await;
    rig.define("v1", URL).await;
    let v2 = rig.places("v2");
    let select = |text: &str| ListOptions { field_selector: text.to_owned(), ..ListOptions::default() };
    let mut stream = v2.watch(&cx(), Some("default"), &select("host=h1")).await.unwrap();
    for (name, host) in [("a", "h1"), ("b", "h2")] {
        create(&v2, &place(name, "v2", json!({"host": host, "port": "1"}))).await.unwrap();
    }
    let list = v2.list(&cx(), Some("default"), &select("host=h2,port=1")).await.unwrap();
    assert_eq!(list.items.len(), 1);
    patch(&v2, "b", PatchKind::Merge, &json!({"host": "h1"})).await.unwrap();
    patch(&v2, "a", PatchKind::Merge, &json!({"host": "h3"})).await.unwrap();
    delete(&v2, "b", &DeleteOptions::default()).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let item = next(&mut stream).await;
        let object = item.object.to_value();
        assert_eq!(object["apiVersion"], "example.com/v2");
        seen.push((item.kind, object["metadata"]["name"].as_str().unwrap().to_owned()));
    }
    let event = |kind, name: &str| (kind, name.to_owned());
    assert_eq!(
        seen,
        [
            event(WatchKind::Added, "a"),
            event(WatchKind::Added, "b"),
            event(WatchKind::Deleted, "a"),
            event(WatchKind::Deleted, "b")
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_fails_is_named() {
    let rig = Places::open().await;
    rig.define("v1", "https://elsewhere.example.com").await;
    let (v1, v2) = (rig.places("v1"), rig.places("v2"));
    create(&v1, &place("a", "v1", json!({"hostPort": "h:1"}))).await.unwrap();
    let error = get(&v2, "a").await.unwrap_err();
    assert_eq!(error.code(), 500);
    let text = error.to_string();
    assert!(text.starts_with("Internal error occurred: StorageError: corrupt object, Code: 7,"), "{text}");
    let why = ": conversion webhook for example.com/v1, Kind=Place failed: Post \"?\": EOF";
    assert!(text.ends_with(why), "{text}");
    // A definition whose webhook is broken can still go.
    let definitions = rig.store("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    delete(&definitions, "places.example.com", &DeleteOptions::default()).await.unwrap();
    for _ in 0..100 {
        if get(&definitions, "places.example.com").await.is_err() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the definition is still there");
}
