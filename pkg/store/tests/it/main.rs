//! The store over a real etcd, started on a loopback port in a temporary directory.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use copepod_store::{
    At, Backend, COMPACT_KEY, Cache, Cas, EtcdBackend, EtcdConfig, EventKind, ListRequest, RangeRequest,
    Revision, Start, StoreError, WatchRequest, run_compactor,
};
use serde_json::json;
use tokio::process::Child;
use tokio_util::sync::CancellationToken;

/// An etcd of this test's own.
struct Etcd {
    dir: tempfile::TempDir,
    url: String,
    peer: String,
    child: Option<Child>,
}

/// The etcd that `cargo xtask upstream build` has made.
fn program() -> PathBuf {
    let home = std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned());
    let ready = PathBuf::from(home).join(".cache/copepod/upstream/READY");
    let list = std::fs::read_to_string(&ready).unwrap_or_else(|e| {
        panic!("{}: {e}; build upstream's programs first: cargo xtask upstream build", ready.display())
    });
    let line = list.lines().find(|line| line.ends_with("/bin/etcd"));
    PathBuf::from(line.expect("READY names etcd"))
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Etcd {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let mut etcd = Self { dir, url: url(free_port()), peer: url(free_port()), child: None };
        etcd.run().await;
        etcd
    }

    async fn run(&mut self) {
        let child = copepod_sys::async_command(program())
            .arg("--data-dir")
            .arg(self.dir.path().join("data"))
            .args(["--listen-client-urls", &self.url, "--advertise-client-urls", &self.url])
            .args(["--listen-peer-urls", &self.peer, "--initial-advertise-peer-urls", &self.peer])
            .args(["--initial-cluster", &format!("default={}", self.peer), "--log-level", "error"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        self.child = Some(child);
        let backend = self.backend().await;
        for _ in 0..200 {
            if backend.get("/registry/none").await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("etcd did not start");
    }

    async fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().await.unwrap();
        }
    }

    async fn backend(&self) -> EtcdBackend {
        let config = EtcdConfig { endpoints: vec![self.url.clone()], tls: None };
        EtcdBackend::connect(&config).await.unwrap()
    }
}

fn pod(name: &str, text: &str) -> Bytes {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "text": text}).to_string().into()
}

async fn put(backend: &dyn Backend, key: &str, expected: Revision, text: &str) -> Revision {
    match backend.put(key, pod(key.rsplit('/').next().unwrap(), text), expected, None).await.unwrap() {
        Cas::Done(revision) => revision,
        Cas::Conflict(found) => panic!("conflict on {key}: {found:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conditional_writes_ranges_and_leases() {
    let etcd = Etcd::start().await;
    let backend = etcd.backend().await;
    let first = put(&backend, "/registry/pods/d/a", 0, "1").await;
    assert!(
        matches!(backend.put("/registry/pods/d/a", pod("a", "2"), 0, None).await.unwrap(), Cas::Conflict(Some(kv)) if kv.revision == first)
    );
    let second = put(&backend, "/registry/pods/d/a", first, "2").await;
    assert!(second > first);
    assert!(matches!(backend.delete("/registry/pods/d/a", first).await.unwrap(), Cas::Conflict(Some(_))));
    for n in 0..7 {
        put(&backend, &format!("/registry/pods/d/b{n}"), 0, "x").await;
    }
    let range = |revision, limit| RangeRequest {
        start: "/registry/pods/".to_owned(),
        end: "/registry/pods0".to_owned(),
        limit,
        revision,
    };
    let page = backend.range(range(0, 3)).await.unwrap();
    assert_eq!((page.items.len(), page.more, page.count), (3, true, 8));
    let old = backend.range(range(first, 0)).await.unwrap();
    assert_eq!((old.items.len(), old.items[0].revision), (1, first));
    backend.compact(second).await.unwrap();
    assert_eq!(backend.range(range(first, 0)).await, Err(StoreError::Compacted(first)));
    assert!(matches!(backend.range(range(second + 1000, 0)).await, Err(StoreError::TooLarge(..))));
    assert!(matches!(backend.delete("/registry/pods/d/a", second).await.unwrap(), Cas::Done(_)));
    let leased =
        backend.put("/registry/events/d/e", pod("e", ""), 0, Some(Duration::from_secs(1))).await.unwrap();
    assert!(matches!(leased, Cas::Done(_)));
    for _ in 0..100 {
        if backend.get("/registry/events/d/e").await.unwrap().0.is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the event outlived its lease");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cache_follows_etcd_through_a_restart() {
    let mut etcd = Etcd::start().await;
    let backend = Arc::new(etcd.backend().await);
    for n in 0..1200 {
        put(backend.as_ref(), &format!("/registry/pods/d/p{n:04}"), 0, &"x".repeat(600)).await;
    }
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let cache = Cache::start(Arc::clone(&backend) as Arc<dyn Backend>, stop.clone());
    tokio::time::timeout(Duration::from_secs(10), cache.ready()).await.unwrap();
    let list = |at| ListRequest { prefix: "/registry/pods/", start: "", at, limit: 0, filter: &None };
    assert_eq!(cache.list(&list(At::Newest)).await.unwrap().entries.len(), 1200);
    let request = WatchRequest {
        prefix: "/registry/pods/".to_owned(),
        start: Start::After(cache.revision()),
        filter: None,
        bookmarks: false,
    };
    let mut watcher = cache.watch(request).await.unwrap();
    let revision = put(backend.as_ref(), "/registry/pods/d/q", 0, "1").await;
    cache.note_written(revision);
    assert!(cache.get_fresh("/registry/pods/d/q").await.unwrap().is_some());
    let event = watcher.next().await.unwrap();
    assert_eq!((event.kind, event.revision), (EventKind::Added, revision));

    etcd.stop().await;
    assert!(backend.put("/registry/pods/d/r", pod("r", ""), 0, None).await.is_err());
    // Reads go on from the cache meanwhile.
    assert_eq!(cache.list(&list(At::Newest)).await.unwrap().entries.len(), 1201);
    etcd.run().await;
    let mut revision = 0;
    for _ in 0..100 {
        match backend.put("/registry/pods/d/s", pod("s", ""), 0, None).await {
            Ok(Cas::Done(done)) => revision = done,
            Ok(Cas::Conflict(found)) => revision = found.unwrap().revision,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
        if revision > 0 {
            break;
        }
    }
    let event = tokio::time::timeout(Duration::from_secs(10), watcher.next()).await.unwrap().unwrap();
    assert_eq!((event.kind, event.revision), (EventKind::Added, revision), "the watch went on");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_compactor_forgets_what_is_two_periods_old() {
    let etcd = Etcd::start().await;
    let backend: Arc<dyn Backend> = Arc::new(etcd.backend().await);
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let cache = Cache::start(Arc::clone(&backend), stop.clone());
    cache.ready().await;
    let old = put(backend.as_ref(), "/registry/pods/d/a", 0, "1").await;
    put(backend.as_ref(), "/registry/pods/d/a", old, "2").await;
    let period = Duration::from_millis(200);
    let task = run_compactor(Arc::clone(&backend), Arc::clone(&cache), period, stop.clone());
    copepod_supervisor::spawn("compactor", task);
    for _ in 0..50 {
        tokio::time::sleep(period).await;
        let request =
            ListRequest { prefix: "/registry/pods/", start: "", at: At::Exact(old), limit: 0, filter: &None };
        if cache.list(&request).await.is_err_and(|e| e == StoreError::Compacted(old)) {
            let (guard, _) = backend.get(COMPACT_KEY).await.unwrap();
            assert!(guard.is_some());
            return;
        }
    }
    panic!("nothing was compacted");
}
