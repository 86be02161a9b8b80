use std::time::Duration;

use bytes::Bytes;
use copepod_api::selector::Labels as _;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    backend::{Cas, KeyValue},
    memory::MemoryBackend,
};

mod model;

const PODS: &str = "/registry/pods/";

struct Rig {
    backend: MemoryBackend,
    cache: Arc<Cache>,
    _stop: tokio_util::sync::DropGuard,
}

async fn rig() -> Rig {
    rig_over(MemoryBackend::default()).await
}

async fn rig_over(backend: MemoryBackend) -> Rig {
    let stop = CancellationToken::new();
    let cache = Cache::start(Arc::new(backend.clone()), stop.clone());
    cache.ready().await;
    Rig { backend, cache, _stop: stop.drop_guard() }
}

fn pod(name: &str, app: &str) -> Bytes {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "labels": {"app": app}}})
        .to_string()
        .into()
}

impl Rig {
    async fn put(&self, key: &str, app: &str) -> Revision {
        let expected = self.cache.get_fresh(key).await.unwrap().map_or(0, |entry| entry.revision());
        let name = key.rsplit('/').next().unwrap();
        match self.backend.put(key, pod(name, app), expected, None).await.unwrap() {
            Cas::Done(revision) => {
                self.cache.note_written(revision);
                revision
            }
            Cas::Conflict(_) => panic!("conflict on {key}"),
        }
    }

    async fn delete(&self, key: &str) -> Revision {
        let expected = self.cache.get_fresh(key).await.unwrap().unwrap().revision();
        match self.backend.delete(key, expected).await.unwrap() {
            Cas::Done(revision) => {
                self.cache.note_written(revision);
                revision
            }
            Cas::Conflict(_) => panic!("conflict on {key}"),
        }
    }

    async fn list(&self, at: At, limit: usize, start: &str) -> Result<ListPage, StoreError> {
        let request = ListRequest { prefix: PODS, start, at, limit, filter: &None };
        self.cache.list(&request).await
    }

    async fn watch(&self, start: Start, filter: Filter) -> Result<Watcher, StoreError> {
        let request = WatchRequest { prefix: PODS.to_owned(), start, filter, bookmarks: true };
        self.cache.watch(request).await
    }
}

fn names(page: &ListPage) -> Vec<&str> {
    page.entries.iter().map(|entry| entry.name()).collect()
}

fn labelled(app: &'static str) -> Filter {
    Some(Arc::new(move |entry: &Entry| entry.labels().label("app") == Some(app)))
}

#[test]
fn keys_fall_into_their_resource() {
    for (key, bucket) in [
        ("/registry/pods/default/a", "pods"),
        ("/registry/pods/", "pods"),
        ("/registry/services/specs/default/a", "services/specs"),
        ("/registry/services/endpoints/", "services/endpoints"),
        ("/registry/example.com/widgets/default/a", "example.com/widgets"),
        ("/registry/apiregistration.k8s.io/apiservices/v1.", "apiregistration.k8s.io/apiservices"),
        ("/registry/minions/edge.local", "minions"),
    ] {
        assert_eq!(bucket_name(key), bucket);
    }
}

#[tokio::test]
async fn what_was_there_before_and_what_comes_after() {
    let backend = MemoryBackend::default();
    for n in 0..1203 {
        backend.put(&format!("{PODS}default/p{n:04}"), pod("p", "x"), 0, None).await.unwrap();
    }
    let rig = rig_over(backend).await;
    assert_eq!(rig.list(At::Newest, 0, "").await.unwrap().entries.len(), 1203);
    let revision = rig.put("/registry/pods/default/z", "x").await;
    assert_eq!(rig.cache.get_fresh("/registry/pods/default/z").await.unwrap().unwrap().revision(), revision);
    let page = rig.list(At::Newest, 0, "").await.unwrap();
    assert_eq!((page.entries.len(), page.revision), (1204, revision));
}

#[tokio::test]
async fn pages_stay_at_their_revision_until_compaction() {
    let rig = rig().await;
    for name in ["a", "b", "c", "d", "e"] {
        rig.put(&format!("{PODS}default/{name}"), "x").await;
    }
    let first = rig.list(At::Newest, 2, "").await.unwrap();
    assert_eq!((names(&first), first.remaining), (vec!["a", "b"], Some(3)));
    rig.delete("/registry/pods/default/d").await;
    rig.put("/registry/pods/default/cc", "x").await;
    rig.put("/registry/pods/default/e", "y").await;
    let next = first.next.clone().unwrap();
    let second = rig.list(At::Exact(first.revision), 2, &next).await.unwrap();
    assert_eq!((names(&second), second.remaining), (vec!["c", "d"], Some(1)));
    assert_eq!(second.revision, first.revision);
    let third = rig.list(At::Exact(first.revision), 2, second.next.as_deref().unwrap()).await.unwrap();
    assert_eq!((names(&third), third.next.clone(), third.remaining), (vec!["e"], None, None));
    assert_eq!(third.entries[0].labels().label("app"), Some("x"));
    let newest = rig.cache.revision();
    rig.cache.note_compacted(newest);
    let gone = rig.list(At::Exact(first.revision), 2, &next).await;
    assert_eq!(gone.unwrap_err(), StoreError::Compacted(first.revision));
}

#[tokio::test]
async fn old_revisions_come_from_the_backend() {
    let rig = rig().await;
    let first = rig.put("/registry/pods/default/a", "x").await;
    rig.put("/registry/pods/default/b", "x").await;
    for n in 0..9000 {
        rig.put("/registry/pods/default/a", if n % 2 == 0 { "y" } else { "z" }).await;
    }
    let page = rig.list(At::Exact(first), 0, "").await.unwrap();
    assert_eq!(names(&page), ["a"]);
    assert_eq!(page.entries[0].labels().label("app"), Some("x"));
    assert!(
        matches!(rig.watch(Start::After(first), None).await, Err(StoreError::TooOld(r, floor)) if r == first && floor > r)
    );
    // Another resource's history is untouched by that churn.
    let quiet = WatchRequest {
        prefix: "/registry/configmaps/".to_owned(),
        start: Start::After(first),
        filter: None,
        bookmarks: false,
    };
    assert!(rig.cache.watch(quiet).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_revision_to_come_is_too_large_after_three_seconds() {
    let rig = rig().await;
    let wanted = rig.cache.revision() + 5;
    assert!(
        matches!(rig.list(At::NotOlderThan(wanted), 0, "").await, Err(StoreError::TooLarge(r, _)) if r == wanted)
    );
}

#[tokio::test]
async fn watchers_see_objects_enter_and_leave_their_selector() {
    let rig = rig().await;
    let start = rig.put("/registry/pods/default/a", "x").await;
    let mut all = rig.watch(Start::After(start), None).await.unwrap();
    let mut some = rig.watch(Start::After(start), labelled("y")).await.unwrap();
    let entered = rig.put("/registry/pods/default/a", "y").await;
    let changed = rig.put("/registry/pods/default/a", "y").await;
    let left = rig.put("/registry/pods/default/a", "x").await;
    let deleted = rig.delete("/registry/pods/default/a").await;
    for (kind, revision) in [
        (EventKind::Modified, entered),
        (EventKind::Modified, changed),
        (EventKind::Modified, left),
        (EventKind::Deleted, deleted),
    ] {
        let event = all.next().await.unwrap();
        assert_eq!((event.kind, event.revision), (kind, revision));
    }
    for (kind, revision, app) in [
        (EventKind::Added, entered, "y"),
        (EventKind::Modified, changed, "y"),
        (EventKind::Deleted, left, "y"),
    ] {
        let event = some.next().await.unwrap();
        let entry = event.entry.unwrap();
        assert_eq!((event.kind, event.revision, entry.labels().label("app")), (kind, revision, Some(app)));
    }
}

#[tokio::test(start_paused = true)]
async fn initial_lists_end_with_a_bookmark_and_quiet_watches_get_some() {
    let rig = rig().await;
    rig.put("/registry/pods/default/a", "x").await;
    let last = rig.put("/registry/pods/default/b", "x").await;
    let mut watcher = rig.watch(Start::List(0), None).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let event = watcher.next().await.unwrap();
        seen.push((event.kind, event.initial_end));
    }
    assert_eq!(seen, [(EventKind::Added, false), (EventKind::Added, false), (EventKind::Bookmark, true)]);
    // Somebody else's writes move the bookmark on.
    rig.put("/registry/leases/kube-system/x", "x").await;
    let bookmark = watcher.next().await.unwrap();
    assert_eq!(bookmark.kind, EventKind::Bookmark);
    assert!(bookmark.revision > last);
}

#[tokio::test]
async fn a_lost_connection_goes_on_where_it_was() {
    let rig = rig().await;
    let start = rig.put("/registry/pods/default/a", "x").await;
    let mut watcher = rig.watch(Start::After(start), None).await.unwrap();
    rig.backend.cut();
    let revision = rig.put("/registry/pods/default/b", "x").await;
    let event = tokio::time::timeout(Duration::from_secs(5), watcher.next()).await.unwrap().unwrap();
    assert_eq!((event.kind, event.revision), (EventKind::Added, revision));
}

#[tokio::test]
async fn a_compacted_connection_fills_anew_and_ends_watchers() {
    let rig = rig().await;
    let start = rig.put("/registry/pods/default/a", "x").await;
    rig.cache.fresh().await.unwrap();
    let mut watcher = rig.watch(Start::After(start), None).await.unwrap();
    rig.backend.cut();
    let mut last = 0;
    // Written behind the server's back, and compacted before it can look.
    for n in 0..3 {
        let key = format!("{PODS}default/c{n}");
        if let Cas::Done(revision) = rig.backend.put(&key, pod("c", "x"), 0, None).await.unwrap() {
            last = revision;
        }
    }
    rig.backend.compact(last).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), watcher.next()).await.unwrap();
    assert!(matches!(ended, Err(StoreError::TooOld(..))), "{ended:?}");
    assert_eq!(names(&rig.list(At::NotOlderThan(last), 0, "").await.unwrap()), ["a", "c0", "c1", "c2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_list_and_its_watch_give_every_object_exactly_once() {
    let rig = Arc::new(rig().await);
    let mut writers = Vec::new();
    for w in 0..4 {
        let rig = Arc::clone(&rig);
        writers.push(copepod_supervisor::spawn("writer", async move {
            for n in 0..200 {
                let key = format!("{PODS}ns{w}/p{n}");
                rig.put(&key, "x").await;
                if n % 3 == 0 {
                    rig.delete(&key).await;
                }
            }
        }));
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    let page = rig.list(At::Newest, 0, "").await.unwrap();
    let mut watcher = rig.watch(Start::After(page.revision), None).await.unwrap();
    let mut there: std::collections::BTreeSet<String> =
        page.entries.iter().map(|entry| entry.key().to_owned()).collect();
    for writer in writers {
        writer.join().await.unwrap();
    }
    rig.cache.fresh().await.unwrap();
    let mut last = page.revision;
    while let Some(event) = watcher.try_next().unwrap() {
        assert!(event.revision > last, "revisions grow");
        last = event.revision;
        let key = event.entry.unwrap().key().to_owned();
        match event.kind {
            EventKind::Added => assert!(there.insert(key)),
            EventKind::Deleted => assert!(there.remove(&key)),
            other => panic!("unexpected {other:?}"),
        }
    }
    let end = rig.list(At::Newest, 0, "").await.unwrap();
    assert_eq!(
        end.entries.iter().map(|e| e.key().to_owned()).collect::<Vec<_>>(),
        there.into_iter().collect::<Vec<_>>()
    );
    assert_eq!(end.entries.len(), 4 * 200 - 4 * 67);
}

#[tokio::test]
async fn what_cannot_be_read_is_there_with_its_problem() {
    let rig = rig().await;
    rig.backend.put("/registry/pods/default/a", Bytes::from_static(b"k8s\0rest"), 0, None).await.unwrap();
    let entry = Entry::new(KeyValue { key: "k".into(), value: Bytes::from_static(b"k8s\0"), revision: 1 });
    assert!(entry.problem().is_some());
    rig.put("/registry/pods/default/b", "x").await;
    let page = rig.list(At::Newest, 0, "").await.unwrap();
    assert_eq!(page.entries.iter().filter(|e| e.problem().is_some()).count(), 1);
}
