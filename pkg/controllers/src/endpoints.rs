//! Legacy Endpoints of Services that select pods, kept in step with their slices.

use std::collections::BTreeMap;
use std::sync::Arc;

use copepod_client::resources::ENDPOINTS;
use copepod_client::{Labels, ObjectKey, Outcome, WorkQueue};
use serde_json::json;

use crate::context::{Context, SyncResult, enqueue};
use crate::endpoint_slice::{
    HEADLESS, address, follow_pods, hostname, ports, selected_pods, selector, target_ref, trigger_time,
};
use crate::slices::TRIGGER_TIME;
use crate::step::{Step, execute_all};
use crate::views::{Address, EndpointPort, Endpoints, Pod, Service, Subset};

const MANAGED_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
/// Larger Endpoints are cut off; upstream's limit.
const MOST: usize = 1000;
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    enqueue(&context.caches.services, &queue);
    let changed = queue.clone();
    context.caches.endpoints.on_change(move |key, delta| {
        // Objects that others keep without a Service are none of ours.
        let ours = delta.object().metadata.label(MANAGED_BY.0) == MANAGED_BY.1;
        if ours || matches!(delta, copepod_client::Delta::Deleted(_)) {
            changed.add(key.clone());
        }
    });
    follow_pods(context, &queue);
    context.work(&queue, 2, sync);
}

async fn sync(context: Context, key: ObjectKey) -> SyncResult {
    let existing = context.caches.endpoints.get_key(&key);
    let Some(service) = context.caches.services.get_key(&key) else {
        // As upstream: what has the name of a Service that is gone goes with it, whoever made it.
        let steps = existing.iter().map(|e| Step::delete(&ENDPOINTS, &e.metadata)).collect();
        return execute_all(&context, steps).await.map(|()| Outcome::Done);
    };
    let Some(selector) = selector(&service) else { return Ok(Outcome::Done) };
    let pods = selected_pods(&context, &service, selector);
    let step = plan(&service, &pods, existing.as_deref());
    match execute_all(&context, step.into_iter().collect()).await {
        Err(error) if error.namespace_terminating() => Ok(Outcome::Done),
        other => other.map(|()| Outcome::Done),
    }
}

fn subsets(service: &Service, pods: &[Arc<Pod>]) -> (Vec<Subset>, bool) {
    let family = service.spec.ip_families.first().map_or("IPv4", String::as_str);
    let eager = service.spec.publish_not_ready_addresses;
    let mut groups: BTreeMap<Vec<EndpointPort>, Subset> = BTreeMap::new();
    let mut count = 0;
    for pod in pods.iter().filter(|p| eager || !p.metadata.deleting()) {
        let Some(ip) = address(pod, family) else { continue };
        let mut ports = ports(service, pod);
        if ports.is_empty() && !service.spec.ports.is_empty() {
            continue;
        }
        ports.iter_mut().for_each(|p| p.name = p.name.take().filter(|n| !n.is_empty()));
        count += 1;
        if count > MOST {
            break;
        }
        let address = Address {
            ip,
            hostname: hostname(service, pod),
            node_name: Some(pod.spec.node_name.to_string()).filter(|n| !n.is_empty()),
            target_ref: Some(target_ref(pod)),
        };
        let subset = groups.entry(ports).or_default();
        let list = if eager || pod.ready() { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        list.push(address);
    }
    let build = |(ports, mut subset): (_, Subset)| {
        subset.addresses.sort();
        subset.not_ready_addresses.sort();
        Subset { ports, ..subset }
    };
    (groups.into_iter().map(build).collect(), count > MOST)
}

fn plan(service: &Service, pods: &[Arc<Pod>], existing: Option<&Endpoints>) -> Option<Step> {
    let (subsets, cut) = subsets(service, pods);
    let mut labels: Labels = service.metadata.labels.clone();
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    if &*service.spec.cluster_ip == "None" {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    let note = if cut { json!("truncated") } else { json!(null) };
    let time = trigger_time(service, pods);
    let Some(existing) = existing else {
        let mut annotations = Labels::new();
        annotations.extend(time.map(|at| (TRIGGER_TIME.to_owned(), at)));
        if cut {
            annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
        }
        let metadata = json!({"name": service.metadata.name, "labels": labels, "annotations": annotations});
        let body = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets});
        return Some(Step::Create {
            resource: ENDPOINTS,
            namespace: service.metadata.namespace.clone(),
            body,
        });
    };
    let same_labels = labels.iter().all(|(k, v)| existing.metadata.labels.get(k) == Some(v));
    let same_note = existing.metadata.annotation(OVER_CAPACITY).is_some() == cut;
    if existing.subsets == subsets && same_labels && same_note {
        return None;
    }
    let metadata = json!({"labels": labels, "annotations": {OVER_CAPACITY: note, TRIGGER_TIME: time}});
    Some(Step::merge(&ENDPOINTS, &existing.metadata, json!({"metadata": metadata, "subsets": subsets})))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, ready: &str, deleting: bool) -> Arc<Pod> {
        let mut metadata = json!({"name": name, "namespace": "ns", "uid": name});
        if deleting {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let status = json!({"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": ready}]});
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap())
    }

    #[test]
    fn ready_and_not_ready_addresses_share_a_subset_and_the_dying_are_left_out() {
        let service: Service = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "ns"},
            "spec": {"selector": {"a": "b"}, "ports": [{"port": 80, "targetPort": 8080}]},
        }))
        .unwrap();
        let pods = [pod("a", "True", false), pod("b", "False", false), pod("c", "True", true)];
        let Some(Step::Create { body, .. }) = plan(&service, &pods, None) else { panic!("a creation") };
        let made: Endpoints = serde_json::from_value(body).unwrap();
        let [subset] = made.subsets.as_slice() else { panic!("one subset") };
        assert_eq!((subset.addresses.len(), subset.not_ready_addresses.len()), (1, 1));
        assert_eq!(subset.ports[0].port, Some(8080));
        assert_eq!(plan(&service, &pods, Some(&made)), None, "nothing to write twice");
        assert!(plan(&service, &pods[..1], Some(&made)).is_some());
    }
}
