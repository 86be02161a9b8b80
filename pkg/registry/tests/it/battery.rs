//! One battery for all kinds: create, read, conflict, patch, apply, watch, finalizers, delete, dry run.

use copepod_api::{Reason, meta};
use copepod_registry::{
    DeleteOptions, Deleted, ListOptions, Patch, PatchKind, Preconditions, Propagation, RequestContext, Store,
    Target, WatchKind,
};
use serde_json::{Value, json};

use crate::rig::{create, cx, delete, get, json_body, namespace, next, patch, rig, update, watch_from};

/// A group, version and plural with a small valid object.
type Sample = (&'static str, &'static str, &'static str, Value);

fn samples() -> Vec<Sample> {
    let pod = json!({"containers": [{"name": "c", "image": "i"}]});
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod});
    let selector = json!({"matchLabels": {"app": "a"}});
    vec![
        ("", "v1", "configmaps", json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"a": "b"}})),
        ("", "v1", "secrets", json!({"kind": "Secret", "apiVersion": "v1", "stringData": {"a": "b"}})),
        ("", "v1", "serviceaccounts", json!({"kind": "ServiceAccount", "apiVersion": "v1"})),
        (
            "",
            "v1",
            "nodes",
            json!({"kind": "Node", "apiVersion": "v1", "spec": {"podCIDR": "10.244.0.0/24"}}),
        ),
        ("", "v1", "podtemplates", json!({"kind": "PodTemplate", "apiVersion": "v1", "template": template})),
        (
            "apps",
            "v1",
            "deployments",
            json!({"kind": "Deployment", "apiVersion": "apps/v1", "spec": {"selector": selector, "template": template}}),
        ),
        (
            "rbac.authorization.k8s.io",
            "v1",
            "clusterroles",
            json!({"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1", "rules": []}),
        ),
        (
            "coordination.k8s.io",
            "v1",
            "leases",
            json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "spec": {"holderIdentity": "me"}}),
        ),
        (
            "scheduling.k8s.io",
            "v1",
            "priorityclasses",
            json!({"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "value": 5}),
        ),
    ]
}

fn named(object: &Value, name: &str) -> Value {
    let mut object = object.clone();
    object["metadata"] = json!({"name": name, "labels": {"app": name}});
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_passes_the_battery() {
    let rig = rig().await;
    for (group, version, plural, sample) in samples() {
        let store = rig.store(group, version, plural);
        create_and_conflict(&store, &sample).await;
        update_and_patch(&store, &sample).await;
        apply(&store, &sample).await;
        finalizers(&store, &sample).await;
        dry_run(&store, &sample).await;
        generated_names(&store, &sample).await;
        collection(&store).await;
    }
}

async fn create_and_conflict(store: &Store, sample: &Value) {
    let plural = &store.def().plural;
    let made = create(store, &named(sample, "one")).await.unwrap_or_else(|e| panic!("{plural}: {e}"));
    assert!(!meta::uid(&made).is_empty() && !meta::resource_version(&made).is_empty(), "{plural}");
    assert_eq!(made["kind"], sample["kind"]);
    assert_eq!(made["metadata"]["managedFields"][0]["manager"], "test", "{plural}: {made}");
    assert_eq!(get(store, "one").await.unwrap(), made, "{plural}");
    let error = create(store, &named(sample, "one")).await.unwrap_err();
    assert!(error.is(Reason::AlreadyExists), "{plural}: {error}");
    assert!(get(store, "two").await.unwrap_err().is(Reason::NotFound));
    let mut versioned = named(sample, "versioned");
    versioned["metadata"]["resourceVersion"] = "7".into();
    let error = create(store, &versioned).await.unwrap_err();
    assert!(error.to_string().contains("resourceVersion should not be set"), "{plural}: {error}");
    let mut bad = named(sample, "bad");
    bad["metadata"]["labels"] = json!({"-": "x"});
    assert!(create(store, &bad).await.unwrap_err().is(Reason::Invalid), "{plural}");
}

async fn update_and_patch(store: &Store, sample: &Value) {
    let plural = &store.def().plural;
    let before = get(store, "one").await.unwrap();
    let mut watch = watch_from(store, meta::resource_version(&before)).await;
    let mut changed = before.clone();
    changed["metadata"]["annotations"] = json!({"a": "1"});
    let after = update(store, &changed, None).await.unwrap_or_else(|e| panic!("{plural}: {e}"));
    assert_ne!(meta::resource_version(&after), meta::resource_version(&before), "{plural}");
    assert_eq!(meta::uid(&after), meta::uid(&before));
    // The old version is stale now.
    let error = update(store, &changed, None).await.unwrap_err();
    assert!(error.is(Reason::Conflict), "{plural}: {error}");
    // Nothing changed: nothing is written.
    let same = update(store, &after, None).await.unwrap();
    assert_eq!(meta::resource_version(&same), meta::resource_version(&after), "{plural}");
    for (kind, body, expected) in [
        (PatchKind::Merge, json!({"metadata": {"annotations": {"b": "2"}}}), json!({"a": "1", "b": "2"})),
        (PatchKind::Strategic, json!({"metadata": {"annotations": {"a": null}}}), json!({"b": "2"})),
        (
            PatchKind::Json,
            json!([{"op": "add", "path": "/metadata/annotations/c", "value": "3"}]),
            json!({"b": "2", "c": "3"}),
        ),
    ] {
        let patched =
            patch(store, "one", kind, &body).await.unwrap_or_else(|e| panic!("{plural} {kind:?}: {e}"));
        assert_eq!(patched["metadata"]["annotations"], expected, "{plural} {kind:?}");
    }
    for _ in 0..4 {
        let event = next(&mut watch).await;
        assert_eq!(event.kind, WatchKind::Modified, "{plural}");
    }
    let mut other = changed.clone();
    other["metadata"]["uid"] = "another".into();
    other["metadata"]["resourceVersion"] = "".into();
    assert!(update(store, &other, None).await.unwrap_err().is(Reason::Conflict), "{plural}");
    let mut elsewhere = named(sample, "other");
    elsewhere["metadata"]["namespace"] = "elsewhere".into();
    if store.def().namespaced() {
        let error = create(store, &elsewhere).await.unwrap_err();
        assert!(error.is(Reason::BadRequest), "{plural}: {error}");
    }
}

async fn apply(store: &Store, sample: &Value) {
    let plural = &store.def().plural;
    let mut config = named(sample, "applied");
    if plural == "secrets" {
        config.as_object_mut().unwrap().remove("stringData");
    }
    config["metadata"]["labels"] = json!({"from": "apply"});
    let target = Target::new(namespace(store), "applied");
    let one = |manager: &str, config: &Value, force: bool| {
        let cx = RequestContext { field_manager: manager.to_owned(), ..cx() };
        let patch = Patch { kind: PatchKind::Apply, body: config.to_string().into(), force };
        let (store, target) = (store.clone(), target.clone());
        async move { store.patch(&cx, &target, &patch).await }
    };
    let made = one("first", &config, false).await.unwrap_or_else(|e| panic!("{plural}: {e}"));
    assert!(made.created, "{plural}");
    let again = one("first", &config, false).await.unwrap();
    assert!(!again.created);
    assert_eq!(
        meta::resource_version(&again.object.to_value()),
        meta::resource_version(&made.object.to_value()),
        "{plural}: applying the same is no write"
    );
    config["metadata"]["labels"] = json!({"from": "another"});
    let error = one("second", &config, false).await.unwrap_err();
    assert!(error.is(Reason::Conflict), "{plural}: {error}");
    assert!(error.to_string().contains("first"), "{plural}: {error}");
    let forced = one("second", &config, true).await.unwrap().object.to_value();
    assert_eq!(forced["metadata"]["labels"], json!({"from": "another"}), "{plural}");
    delete(store, "applied", &DeleteOptions::default()).await.unwrap();
}

async fn finalizers(store: &Store, sample: &Value) {
    let plural = &store.def().plural;
    let mut object = named(sample, "kept");
    object["metadata"]["finalizers"] = json!(["example.com/keep"]);
    let made = create(store, &object).await.unwrap();
    let mut watch = watch_from(store, meta::resource_version(&made)).await;
    let wrong = DeleteOptions {
        preconditions: Some(Preconditions { uid: Some("x".to_owned()), resource_version: None }),
        ..DeleteOptions::default()
    };
    assert!(delete(store, "kept", &wrong).await.unwrap_err().is(Reason::Conflict), "{plural}");
    let Deleted::Object { object, gone } = delete(store, "kept", &DeleteOptions::default()).await.unwrap()
    else {
        panic!("{plural}: deleted in spite of its finalizer")
    };
    assert!(!gone);
    let going = object.to_value();
    assert!(meta::deletion_timestamp(&going).is_some(), "{plural}");
    assert_eq!(going["metadata"]["deletionGracePeriodSeconds"], 0);
    let mut more = going.clone();
    more["metadata"]["finalizers"] = json!(["example.com/keep", "example.com/more"]);
    assert!(update(store, &more, None).await.unwrap_err().is(Reason::Invalid), "{plural}");
    let mut last = going.clone();
    last["metadata"]["finalizers"] = json!([]);
    update(store, &last, None).await.unwrap_or_else(|e| panic!("{plural}: {e}"));
    assert!(get(store, "kept").await.unwrap_err().is(Reason::NotFound), "{plural}");
    assert_eq!(next(&mut watch).await.kind, WatchKind::Modified);
    let event = next(&mut watch).await;
    assert_eq!(event.kind, WatchKind::Deleted);
    let (at, before) = (event.object.to_value(), meta::resource_version(&going).to_owned());
    assert!(meta::resource_version(&at).parse::<i64>().unwrap() > before.parse().unwrap(), "{plural}");
    // The garbage collector's finalizers come from the options.
    create(store, &named(sample, "owner")).await.unwrap();
    let orphan = DeleteOptions { propagation_policy: Some(Propagation::Orphan), ..DeleteOptions::default() };
    let Deleted::Object { object, .. } = delete(store, "owner", &orphan).await.unwrap() else {
        panic!("{plural}")
    };
    assert_eq!(object.to_value()["metadata"]["finalizers"], json!(["orphan"]), "{plural}");
    let none = json!({"metadata": {"finalizers": null}});
    patch(store, "owner", PatchKind::Merge, &none).await.unwrap();
    assert!(get(store, "owner").await.is_err(), "{plural}");
}

async fn dry_run(store: &Store, sample: &Value) {
    let plural = &store.def().plural;
    let dry = RequestContext { dry_run: true, ..cx() };
    let target = Target::new(namespace(store), "");
    let made = store.create(&dry, &target, json_body(&named(sample, "dry"))).await.unwrap().to_value();
    assert!(!meta::uid(&made).is_empty() && meta::resource_version(&made).is_empty(), "{plural}");
    assert!(get(store, "dry").await.is_err(), "{plural}");
    let before = get(store, "one").await.unwrap();
    let target = Target::new(namespace(store), "one");
    let mut changed = before.clone();
    changed["metadata"]["annotations"] = json!({"dry": "run"});
    let shown = store.update(&dry, &target, json_body(&changed)).await.unwrap().object.to_value();
    assert_eq!(shown["metadata"]["annotations"]["dry"], "run", "{plural}");
    store.delete(&dry, &target, &DeleteOptions::default()).await.unwrap();
    assert_eq!(get(store, "one").await.unwrap(), before, "{plural}");
}

async fn generated_names(store: &Store, sample: &Value) {
    let plural = &store.def().plural;
    let mut object = sample.clone();
    object["metadata"] = json!({"generateName": "gen-"});
    let (a, b) = (create(store, &object).await.unwrap(), create(store, &object).await.unwrap());
    assert!(meta::name(&a).starts_with("gen-") && meta::name(&a).len() == 9, "{plural}");
    assert_ne!(meta::name(&a), meta::name(&b));
    object["metadata"] = json!({});
    assert!(create(store, &object).await.unwrap_err().is(Reason::Invalid), "{plural}");
}

async fn collection(store: &Store) {
    let plural = &store.def().plural;
    let some = ListOptions { label_selector: "app=one".to_owned(), ..ListOptions::default() };
    let gone =
        store.delete_collection(&cx(), namespace(store), &DeleteOptions::default(), &some).await.unwrap();
    assert_eq!(gone.items.len(), 1, "{plural}");
    let left = store.list(&cx(), namespace(store), &ListOptions::default()).await.unwrap();
    assert_eq!(left.items.len(), 2, "{plural}");
    let bytes: Value = serde_json::from_slice(&left.to_bytes()).unwrap();
    assert_eq!(bytes["kind"], format!("{}List", store.def().kind));
    assert!(bytes["items"][0].get("kind").is_none(), "{plural}: items of built-in lists carry no kind");
    store.delete_collection(&cx(), None, &DeleteOptions::default(), &ListOptions::default()).await.unwrap();
    assert!(store.list(&cx(), None, &ListOptions::default()).await.unwrap().items.is_empty(), "{plural}");
}
