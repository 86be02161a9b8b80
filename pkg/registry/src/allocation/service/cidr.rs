//! The ServiceCIDR `kubernetes`: the configured ranges as an object.

use std::{sync::Weak, time::Duration};

use copepod_api::{ApiResult, GroupVersionResource, Reason};
use ipnet::IpNet;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    metadata::time,
    registry::Registry,
    request::{Body, RequestContext, Target},
    store::Store,
};

/// Between two attempts while the store is not there.
const PAUSE: Duration = Duration::from_secs(2);

/// Makes the object once the store is there, and again when it is deleted.
pub(super) async fn keep_default(registry: Weak<Registry>, cidrs: Vec<IpNet>, shutdown: CancellationToken) {
    let run = async {
        let Some(first) = registry.upgrade() else { return };
        first.ready().await;
        let gvr = GroupVersionResource::new("networking.k8s.io", "v1", "servicecidrs");
        let Some(store) = first.store(&gvr) else { return };
        let bucket = first.cache().bucket(&store.row.def.key_prefix(None));
        drop(first);
        loop {
            let changed = bucket.changed();
            match ensure(&store, &cidrs).await {
                Ok(()) => changed.await,
                Err(error) => {
                    tracing::warn!(%error, "default ServiceCIDR was not made");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = run => {}
    }
}

async fn ensure(store: &Store, cidrs: &[IpNet]) -> ApiResult<()> {
    let cx = RequestContext::internal();
    let target = Target::new(None, "kubernetes");
    let object = match store.get(&cx, &target, "").await {
        Ok(object) => object.into_value(),
        Err(error) if error.is(Reason::NotFound) => {
            let list: Vec<String> = cidrs.iter().map(ToString::to_string).collect();
            let object = json!({
                "kind": "ServiceCIDR", "apiVersion": "networking.k8s.io/v1",
                "metadata": {"name": "kubernetes"}, "spec": {"cidrs": list},
            });
            store.create(&cx, &Target::default(), Body::Value(object)).await?.into_value()
        }
        Err(error) => return Err(error),
    };
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    if conditions.is_some_and(|list| list.iter().any(|c| c["type"] == "Ready")) {
        return Ok(());
    }
    let mut object = object;
    object["status"] = json!({"conditions": [{
        "type": "Ready", "status": "True", "reason": "", "lastTransitionTime": time(cx.now),
        "message": "Kubernetes default Service CIDR is ready",
    }]});
    store.update(&cx, &target.sub("status"), Body::Value(object)).await.map(|_| ())
}
