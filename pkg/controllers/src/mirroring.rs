//! Endpoints that people or programs keep by hand are mirrored into EndpointSlices, which is what proxies read.

use std::collections::BTreeMap;

use copepod_client::resources::ENDPOINTS;
use copepod_client::{ObjectKey, Outcome, WorkQueue};

use crate::context::{Context, SyncResult, enqueue};
use crate::endpoint_slice::slices_of;
use crate::ownership::controller_reference;
use crate::slices::{Group, MANAGED_BY, Pattern, SERVICE_NAME, plan_slices};
use crate::step::{Step, execute_all};
use crate::views::{Address, Endpoint, EndpointConditions, EndpointSlice, Endpoints, HasMeta, Subset};

const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Addresses mirrored of one subset; upstream's limit.
const MOST: usize = 1000;

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    enqueue(&context.caches.endpoints, &queue);
    enqueue(&context.caches.services, &queue);
    let slices = queue.clone();
    context.caches.endpoint_slices.on_change(move |key, delta| {
        let meta = delta.object().meta();
        if meta.label(MANAGED_BY) == CONTROLLER {
            slices.add(ObjectKey::new(&key.namespace, meta.label(SERVICE_NAME)));
        }
    });
    context.work(&queue, 1, sync);
}

async fn sync(context: Context, key: ObjectKey) -> SyncResult {
    let existing = slices_of(&context, &key, CONTROLLER);
    let by_hand =
        context.caches.services.get_key(&key).is_some_and(|service| service.spec.selector.is_none());
    let endpoints = context.caches.endpoints.get_key(&key).filter(|e| by_hand && mirrored(e));
    let steps = match endpoints {
        Some(endpoints) => plan(&endpoints, &existing),
        None => existing
            .iter()
            .map(|s| Step::delete(&copepod_client::resources::ENDPOINT_SLICES, &s.metadata))
            .collect(),
    };
    match execute_all(&context, steps).await {
        Err(error) if error.namespace_terminating() => Ok(Outcome::Done),
        other => other.map(|()| Outcome::Done),
    }
}

fn mirrored(endpoints: &Endpoints) -> bool {
    let meta = &endpoints.metadata;
    meta.label(SKIP) != "true" && meta.annotation(LEADER).is_none() && !meta.deleting()
}

fn plan(endpoints: &Endpoints, existing: &[std::sync::Arc<EndpointSlice>]) -> Vec<Step> {
    let meta = &endpoints.metadata;
    let mut labels = meta.labels.clone();
    labels.insert(SERVICE_NAME.to_owned(), meta.name.clone());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    let mut annotations = meta.annotations.clone();
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    let pattern = Pattern {
        namespace: meta.namespace.clone(),
        base: meta.name.clone(),
        labels,
        annotations,
        owner: controller_reference(&ENDPOINTS, meta),
    };
    let mut desired: BTreeMap<Group, Vec<Endpoint>> = BTreeMap::new();
    for subset in &endpoints.subsets {
        collect(subset, &mut desired);
    }
    // Without any address there is nothing to show, so no empty slice is kept.
    plan_slices(&pattern, existing, desired, &[])
}

fn collect(subset: &Subset, desired: &mut BTreeMap<Group, Vec<Endpoint>>) {
    let mut ports = subset.ports.clone();
    for port in &mut ports {
        port.name.get_or_insert_default();
        port.protocol.get_or_insert_with(|| "TCP".to_owned());
    }
    ports.sort();
    let ready = subset.addresses.iter().map(|a| (a, true));
    let all = ready.chain(subset.not_ready_addresses.iter().map(|a| (a, false)));
    for (address, ready) in all.take(MOST) {
        let family = if address.ip.contains(':') { "IPv6" } else { "IPv4" };
        desired.entry((family.to_owned(), ports.clone())).or_default().push(endpoint(address, ready));
    }
}

fn endpoint(address: &Address, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: EndpointConditions { ready: Some(ready), serving: Some(ready), terminating: None },
        hostname: address.hostname.clone(),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        zone: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn subsets_become_slices_and_nothing_becomes_nothing() {
        let endpoints: Endpoints = serde_json::from_value(json!({
            "metadata": {"name": "db", "namespace": "ns", "labels": {"a": "b"}},
            "subsets": [{"addresses": [{"ip": "10.1.2.3"}], "notReadyAddresses": [{"ip": "10.1.2.4"}], "ports": [{"port": 5432}]}],
        }))
        .unwrap();
        let steps = plan(&endpoints, &[]);
        let [Step::Create { body, .. }] = steps.as_slice() else { panic!("one slice: {steps:?}") };
        assert_eq!(body["metadata"]["labels"][SERVICE_NAME], "db");
        assert_eq!(body["endpoints"].as_array().map(Vec::len), Some(2));
        assert_eq!(body["ports"][0], json!({"name": "", "port": 5432, "protocol": "TCP"}));
        let empty = Endpoints { subsets: Vec::new(), ..endpoints };
        assert!(plan(&empty, &[]).is_empty());
    }
}
