//! A registry for tests.

use std::sync::Arc;

use copepod_api::{ApiResult, GroupVersionResource, meta};
use copepod_registry::{
    Body, DeleteOptions, Deleted, ListOptions, Patch, PatchKind, Registry, RegistryConfig, RequestContext,
    Store, Target, UserInfo, WatchItem, WatchStream,
};
use copepod_store::MemoryBackend;
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) struct Rig {
    pub(crate) registry: Arc<Registry>,
    _stop: DropGuard,
}

pub(crate) async fn rig() -> Rig {
    let stop = CancellationToken::new();
    let config = RegistryConfig { compaction: None, ..RegistryConfig::default() };
    let registry = Registry::open(Arc::new(MemoryBackend::default()), config, &stop);
    registry.ready().await;
    Rig { registry, _stop: stop.drop_guard() }
}

pub(crate) fn cx() -> RequestContext {
    let user = UserInfo { name: "someone".to_owned(), ..UserInfo::default() };
    RequestContext { user, field_manager: "test".to_owned(), ..RequestContext::internal() }
}

impl Rig {
    pub(crate) fn store(&self, group: &str, version: &str, resource: &str) -> Store {
        let gvr = GroupVersionResource::new(group, version, resource);
        self.registry.store(&gvr).unwrap_or_else(|| panic!("no store of {resource}"))
    }

    pub(crate) fn core(&self, resource: &str) -> Store {
        self.store("", "v1", resource)
    }
}

pub(crate) fn namespace(store: &Store) -> Option<&'static str> {
    store.def().namespaced().then_some("default")
}

pub(crate) fn json_body(value: &Value) -> Body {
    Body::Json(value.to_string().into())
}

pub(crate) async fn create(store: &Store, object: &Value) -> ApiResult<Value> {
    let target = Target::new(namespace(store), "");
    store
        .create(&cx(), &target, json_body(object))
        .await
        .map(|o| serde_json::from_slice(&o.to_bytes()).unwrap())
}

pub(crate) async fn get(store: &Store, name: &str) -> ApiResult<Value> {
    let target = Target::new(namespace(store), name);
    store.get(&cx(), &target, "").await.map(|o| serde_json::from_slice(&o.to_bytes()).unwrap())
}

pub(crate) async fn update(store: &Store, object: &Value, subresource: Option<&str>) -> ApiResult<Value> {
    let mut target = Target::new(namespace(store), meta::name(object));
    target.subresource = subresource.map(str::to_owned);
    store.update(&cx(), &target, json_body(object)).await.map(|w| w.object.to_value())
}

pub(crate) async fn patch(store: &Store, name: &str, kind: PatchKind, body: &Value) -> ApiResult<Value> {
    let target = Target::new(namespace(store), name);
    let patch = Patch { kind, body: body.to_string().into(), force: false };
    store.patch(&cx(), &target, &patch).await.map(|w| w.object.to_value())
}

pub(crate) async fn delete(store: &Store, name: &str, options: &DeleteOptions) -> ApiResult<Deleted> {
    store.delete(&cx(), &Target::new(namespace(store), name), options).await
}

pub(crate) async fn watch_from(store: &Store, resource_version: &str) -> WatchStream {
    let options = ListOptions { resource_version: resource_version.to_owned(), ..ListOptions::default() };
    store.watch(&cx(), namespace(store), &options).await.unwrap()
}

pub(crate) async fn next(stream: &mut WatchStream) -> WatchItem {
    let next = tokio::time::timeout(std::time::Duration::from_secs(5), stream.next());
    next.await.expect("an event in time").expect("the watch goes on")
}
