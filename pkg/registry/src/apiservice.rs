//! The APIService objects of what this server serves itself: made, kept as they should be, and removed with the last
//! custom resource of their group and version.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
    time::Duration,
};

use copepod_api::{ApiResult, GroupVersion, GroupVersionResource, Reason, meta};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    metadata::time,
    registry::Registry,
    request::{Body, DeleteOptions, RequestContext, Target},
    store::Store,
};

const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// Before another attempt.
const PAUSE: Duration = Duration::from_secs(2);

/// Priorities of the built-in groups: a group's, then its version's. Discovery sorts by them.
const PRIORITIES: [(&str, &str, i32, i32); 25] = [
    ("", "v1", 18000, 1),
    ("apps", "v1", 17800, 15),
    ("events.k8s.io", "v1", 17750, 15),
    ("authentication.k8s.io", "v1", 17700, 15),
    ("authorization.k8s.io", "v1", 17600, 15),
    ("autoscaling", "v1", 17500, 15),
    ("autoscaling", "v2", 17500, 30),
    ("batch", "v1", 17400, 15),
    ("certificates.k8s.io", "v1", 17300, 15),
    ("networking.k8s.io", "v1", 17200, 15),
    ("policy", "v1", 17100, 15),
    ("rbac.authorization.k8s.io", "v1", 17000, 15),
    ("storage.k8s.io", "v1", 16800, 15),
    ("apiextensions.k8s.io", "v1", 16700, 15),
    ("admissionregistration.k8s.io", "v1", 16700, 15),
    ("scheduling.k8s.io", "v1", 16600, 15),
    ("coordination.k8s.io", "v1", 16500, 15),
    ("node.k8s.io", "v1", 16300, 15),
    ("discovery.k8s.io", "v1", 16200, 15),
    ("flowcontrol.apiserver.k8s.io", "v1", 16100, 21),
    ("flowcontrol.apiserver.k8s.io", "v1beta3", 16100, 18),
    ("internal.apiserver.k8s.io", "v1alpha1", 16000, 9),
    ("resource.k8s.io", "v1", 15900, 20),
    ("storagemigration.k8s.io", "v1", 15800, 15),
    ("storagemigration.k8s.io", "v1beta1", 15800, 9),
];

/// What a group and version should have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    served: GroupVersion,
    custom: bool,
}

impl Wanted {
    fn name(&self) -> String {
        format!("{}.{}", self.served.version, self.served.group)
    }

    fn priorities(&self) -> (i32, i32) {
        if self.custom {
            return (1000, 100);
        }
        let known = PRIORITIES.iter().find(|(g, v, ..)| *g == self.served.group && *v == self.served.version);
        known.map_or((15000, 15), |(.., group, version)| (*group, *version))
    }

    fn object(&self) -> Value {
        let (group, version) = self.priorities();
        let mut spec = json!({
            "version": self.served.version, "groupPriorityMinimum": group, "versionPriority": version,
        });
        if !self.served.group.is_empty() {
            spec["group"] = self.served.group.clone().into();
        }
        json!({
            "kind": "APIService", "apiVersion": "apiregistration.k8s.io/v1",
            "metadata": {"name": self.name(), "labels": {MANAGED: if self.custom { "true" } else { "onstart" }}},
            "spec": spec,
        })
    }
}

/// Starts the task, which runs until `shutdown`.
pub(crate) fn start(registry: &Arc<Registry>, shutdown: &CancellationToken) {
    let task = run(Arc::downgrade(registry), shutdown.clone());
    copepod_supervisor::spawn("apiservices", task);
}

async fn run(registry: Weak<Registry>, shutdown: CancellationToken) {
    let follow = async {
        let Some(first) = registry.upgrade() else { return };
        first.ready().await;
        let gvr = GroupVersionResource::new("apiregistration.k8s.io", "v1", "apiservices");
        let Some(store) = first.store(&gvr) else { return };
        let mut rows = first.changed();
        let bucket = first.cache().bucket(&store.row.def.key_prefix(None));
        drop(first);
        loop {
            let changed = bucket.changed();
            tokio::pin!(changed);
            let Some(registry) = registry.upgrade() else { return };
            let wanted = wanted(&registry);
            drop(registry);
            let failed = match Box::pin(pass(&store, &wanted)).await {
                Ok(()) => false,
                Err(error) => {
                    tracing::warn!(%error, "APIService objects are not up to date");
                    true
                }
            };
            tokio::select! {
                () = &mut changed => {}
                result = rows.changed() => if result.is_err() { return },
                () = tokio::time::sleep(PAUSE), if failed => {}
            }
        }
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = follow => {}
    }
}

/// Everything that is served here.
fn wanted(registry: &Registry) -> BTreeSet<Wanted> {
    let rows = registry.rows();
    // The registration of services is not registered itself.
    let rows = rows.iter().filter(|def| def.group != "apiregistration.k8s.io");
    rows.map(|def| Wanted { served: def.group_version(), custom: def.custom }).collect()
}

async fn pass(store: &Store, wanted: &BTreeSet<Wanted>) -> ApiResult<()> {
    let cx = RequestContext::internal();
    for one in wanted {
        ensure(store, &cx, one).await?;
    }
    // What was registered for custom resources that are gone.
    let prefix = store.row.def.key_prefix(None);
    for entry in store.core.cache.bucket(&prefix).entries(&prefix) {
        let ours = copepod_api::selector::Labels::label(&entry.labels(), MANAGED) == Some("true");
        if ours && !wanted.iter().any(|one| one.name() == entry.name()) {
            let target = Target::new(None, entry.name());
            match store.delete(&cx, &target, &DeleteOptions::default()).await {
                Err(error) if !error.is(Reason::NotFound) => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

async fn ensure(store: &Store, cx: &RequestContext, wanted: &Wanted) -> ApiResult<()> {
    let target = Target::new(None, &wanted.name());
    let object = match store.current(None, &target.name).await? {
        Some(entry) => store.row.load(&entry)?,
        None => store.create(cx, &Target::default(), Body::Value(wanted.object())).await?.into_value(),
    };
    if meta::deletion_timestamp(&object).is_some()
        || !object.pointer("/spec/service").is_none_or(Value::is_null)
    {
        // Going, or delegated to another server by somebody.
        return Ok(());
    }
    let available = object.pointer("/status/conditions").and_then(Value::as_array);
    let is_local = |c: &Value| c["type"] == "Available" && c["status"] == "True" && c["reason"] == "Local";
    if available.is_some_and(|list| list.iter().any(is_local)) {
        return Ok(());
    }
    let mut object = object;
    object["status"] = json!({"conditions": [{
        "type": "Available", "status": "True", "reason": "Local", "lastTransitionTime": time(cx.now),
        "message": "Local APIServices are always available",
    }]});
    match store.update(cx, &target.sub("status"), Body::Value(object)).await {
        Err(error) if !error.is(Reason::Conflict) && !error.is(Reason::NotFound) => Err(error),
        _ => Ok(()),
    }
}
