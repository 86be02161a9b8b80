//! Lists in pages, and watches.

use copepod_api::{Reason, meta};
use copepod_registry::{ListOptions, PatchKind, WatchKind};
use serde_json::{Value, json};

use crate::rig::{create, cx, next, patch, rig};

fn map(name: &str, app: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "labels": {"app": app}}, "data": {"a": "b"}})
}

#[tokio::test]
async fn a_list_comes_in_pages_of_one_revision() {
    let rig = rig().await;
    let store = rig.core("configmaps");
    for n in 0..50 {
        create(&store, &map(&format!("m{n:02}"), "x")).await.unwrap();
    }
    let mut options = ListOptions { limit: 17, ..ListOptions::default() };
    let (mut names, mut revisions) = (Vec::new(), Vec::new());
    loop {
        let page = store.list(&cx(), Some("default"), &options).await.unwrap();
        assert!(page.items.len() <= 17);
        names.extend(page.items.iter().map(|item| meta::name(&item.to_value()).to_owned()));
        revisions.push(page.revision);
        if let Some(remaining) = page.remaining {
            assert_eq!(remaining, 50 - names.len());
        }
        if page.continue_.is_empty() {
            break;
        }
        options.continue_ = page.continue_;
        // Changes in between are not seen.
        create(&store, &map(&format!("zz{}", names.len()), "x")).await.unwrap();
    }
    assert_eq!(names.len(), 50);
    assert!(names.is_sorted());
    revisions.dedup();
    assert_eq!(revisions.len(), 1);
}

#[tokio::test]
async fn an_old_token_says_how_to_go_on() {
    let rig = rig().await;
    let store = rig.core("configmaps");
    for n in 0..5 {
        create(&store, &map(&format!("m{n}"), "x")).await.unwrap();
    }
    let mut options = ListOptions { limit: 2, ..ListOptions::default() };
    let page = store.list(&cx(), Some("default"), &options).await.unwrap();
    create(&store, &map("m9", "x")).await.unwrap();
    rig.registry.cache().note_compacted(page.revision + 1);
    options.continue_ = page.continue_;
    let error = store.list(&cx(), Some("default"), &options).await.unwrap_err();
    assert!(error.is(Reason::Expired) && error.code() == 410, "{error}");
    assert!(error.to_string().starts_with("The provided continue parameter is too old to display"));
    options.continue_ = error.status().metadata.continue_.clone();
    let page = store.list(&cx(), Some("default"), &options).await.unwrap();
    let first = page.items[0].to_value();
    assert_eq!(meta::name(&first), "m2");
    options.continue_ = "rubbish".to_owned();
    assert!(store.list(&cx(), Some("default"), &options).await.unwrap_err().is(Reason::BadRequest));
}

#[tokio::test]
async fn selectors_and_their_mistakes() {
    let rig = rig().await;
    let store = rig.core("configmaps");
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        create(&store, &map(name, app)).await.unwrap();
    }
    let names = |labels: &'static str, fields: &'static str| {
        let options = ListOptions {
            label_selector: labels.to_owned(),
            field_selector: fields.to_owned(),
            ..ListOptions::default()
        };
        let store = store.clone();
        async move {
            let list = store.list(&cx(), Some("default"), &options).await?;
            Ok::<_, copepod_api::ApiError>(
                list.items.iter().map(|i| meta::name(&i.to_value()).to_owned()).collect::<Vec<_>>(),
            )
        }
    };
    assert_eq!(names("app=x", "").await.unwrap(), ["a", "c"]);
    assert_eq!(names("app!=x", "").await.unwrap(), ["b"]);
    assert_eq!(names("", "metadata.name=b").await.unwrap(), ["b"]);
    assert_eq!(names("", "metadata.name!=b,metadata.namespace=default").await.unwrap(), ["a", "c"]);
    assert_eq!(names("app=x", "metadata.name=b").await.unwrap(), Vec::<String>::new());
    assert!(names("", "spec.nope=1").await.unwrap_err().is(Reason::BadRequest));
    assert!(names("a in (", "").await.unwrap_err().is(Reason::BadRequest));
    let exact = ListOptions { resource_version_match: "Exact".to_owned(), ..ListOptions::default() };
    assert!(store.list(&cx(), None, &exact).await.unwrap_err().is(Reason::Invalid));
}

#[tokio::test]
async fn an_informer_sees_the_state_then_the_changes() {
    let rig = rig().await;
    let store = rig.core("configmaps");
    create(&store, &map("a", "x")).await.unwrap();
    let options = ListOptions {
        send_initial_events: Some(true),
        resource_version_match: "NotOlderThan".to_owned(),
        allow_watch_bookmarks: true,
        label_selector: "app=x".to_owned(),
        ..ListOptions::default()
    };
    let mut watch = store.watch(&cx(), None, &options).await.unwrap();
    let event = next(&mut watch).await;
    assert_eq!((event.kind, meta::name(&event.object.to_value())), (WatchKind::Added, "a"));
    let event = next(&mut watch).await;
    assert_eq!(event.kind, WatchKind::Bookmark);
    let bookmark = event.object.to_value();
    assert_eq!(meta::annotation(&bookmark, "k8s.io/initial-events-end"), Some("true"));
    let line: Value = serde_json::from_slice(&event.to_bytes()).unwrap();
    assert_eq!((&line["type"], &line["object"]["kind"]), (&json!("BOOKMARK"), &json!("ConfigMap")));
    for (app, kind) in [("y", WatchKind::Deleted), ("x", WatchKind::Added)] {
        patch(&store, "a", PatchKind::Merge, &json!({"metadata": {"labels": {"app": app}}})).await.unwrap();
        assert_eq!(next(&mut watch).await.kind, kind);
    }
    let refused = ListOptions { resource_version_match: String::new(), ..options };
    assert!(store.watch(&cx(), None, &refused).await.unwrap_err().is(Reason::Invalid));
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_time_is_up() {
    let rig = rig().await;
    let store = rig.core("configmaps");
    let options = ListOptions { timeout_seconds: Some(5), ..ListOptions::default() };
    let mut watch = store.watch(&cx(), None, &options).await.unwrap();
    assert!(watch.next().await.is_none());
}
