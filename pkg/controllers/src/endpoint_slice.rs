//! EndpointSlices of Services that select pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use copepod_client::resources::SERVICES;
use copepod_client::{Labels, ObjectKey, Outcome, WorkQueue};
use jiff::Timestamp;

use crate::context::{Context, SyncResult, enqueue};
use crate::ownership::controller_reference;
use crate::slices::{Group, MANAGED_BY, Pattern, SERVICE_NAME, TRIGGER_TIME, plan_slices};
use crate::step::execute_all;
use crate::views::{
    Endpoint, EndpointConditions, EndpointPort, EndpointSlice, HasMeta, IntOrString, Pod, Service,
    ServicePort, TargetRef,
};

/// Value of [`MANAGED_BY`] on slices of this controller.
const CONTROLLER: &str = "endpointslice-controller.k8s.io";
/// Label of headless Services' slices.
pub(crate) const HEADLESS: &str = "service.kubernetes.io/headless";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    enqueue(&context.caches.services, &queue);
    follow_pods(context, &queue);
    let slices = queue.clone();
    context.caches.endpoint_slices.on_change(move |key, delta| {
        let meta = delta.object().meta();
        if meta.label(MANAGED_BY) == CONTROLLER {
            slices.add(ObjectKey::new(&key.namespace, meta.label(SERVICE_NAME)));
        }
    });
    context.work(&queue, 4, sync);
}

/// The slices of a Service that `keeper` keeps.
pub(crate) fn slices_of(context: &Context, service: &ObjectKey, keeper: &str) -> Vec<Arc<EndpointSlice>> {
    let caches = &context.caches;
    let mut slices = caches.endpoint_slices.by_index(caches.slices_by_service, &service.to_string());
    slices.retain(|s| s.metadata.label(MANAGED_BY) == keeper);
    slices
}

/// Services look again when a pod they select, or did select, changes.
pub(crate) fn follow_pods(context: &Context, queue: &WorkQueue<ObjectKey>) {
    let (context, queue) = (context.clone(), queue.clone());
    context.clone().caches.pods.on_change(move |key, delta| {
        for service in context.caches.services.list_namespace(&key.namespace) {
            let Some(selector) = selector(&service) else { continue };
            let selected = |pod: &Arc<Pod>| selects(selector, pod);
            if delta.old().is_some_and(selected) || selected(delta.object()) {
                queue.add(service.metadata.key());
            }
        }
    });
}

/// The selector of a Service whose endpoints are ours to keep.
pub(crate) fn selector(service: &Service) -> Option<&Labels> {
    let selector = service.spec.selector.as_ref().map(|s| &s.0).filter(|s| !s.is_empty())?;
    (&*service.spec.r#type != "ExternalName").then_some(selector)
}

/// Whether a pod carries all labels of a Service's selector. There may be thousands of Services to ask for each
/// change of a pod, so nothing is compiled here.
fn selects(selector: &Labels, pod: &Pod) -> bool {
    selector.iter().all(|(key, value)| pod.metadata.labels.get(key) == Some(value))
}

/// The pods behind a Service.
pub(crate) fn selected_pods(context: &Context, service: &Service, selector: &Labels) -> Vec<Arc<Pod>> {
    let mut pods = context.caches.pods.list_namespace(&service.metadata.namespace);
    pods.retain(|p| selects(selector, p) && !p.finished() && !p.status.pod_ip.is_empty());
    pods
}

async fn sync(context: Context, key: ObjectKey) -> SyncResult {
    // Slices of a Service that is gone are collected through their owner.
    let Some(service) = context.caches.services.get_key(&key) else { return Ok(Outcome::Done) };
    let Some(selector) = selector(&service) else { return Ok(Outcome::Done) };
    if service.metadata.deleting() {
        return Ok(Outcome::Done);
    }
    let pods = selected_pods(&context, &service, selector);
    let zone = |node: &str| {
        let node = context.caches.nodes.get("", node)?;
        node.metadata.labels.get(ZONE).cloned()
    };
    let families = families(&service);
    let desired = plan_endpoints(&service, &pods, &families, &zone);
    let existing = slices_of(&context, &key, CONTROLLER);
    let steps = plan_slices(&pattern(&service, &pods), &existing, desired, &families);
    match execute_all(&context, steps).await {
        Err(error) if error.namespace_terminating() => Ok(Outcome::Done),
        other => other.map(|()| Outcome::Done),
    }
}

fn families(service: &Service) -> Vec<String> {
    if service.spec.ip_families.is_empty() {
        vec!["IPv4".to_owned()]
    } else {
        service.spec.ip_families.clone()
    }
}

fn pattern(service: &Service, pods: &[Arc<Pod>]) -> Pattern {
    let mut labels: Labels = service.metadata.labels.clone();
    labels.insert(SERVICE_NAME.to_owned(), service.metadata.name.clone());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    if &*service.spec.cluster_ip == "None" {
        labels.insert(HEADLESS.to_owned(), String::new());
    } else {
        labels.remove(HEADLESS);
    }
    let time = trigger_time(service, pods).map(|at| (TRIGGER_TIME.to_owned(), at));
    Pattern {
        namespace: service.metadata.namespace.clone(),
        base: service.metadata.name.clone(),
        labels,
        annotations: time.into_iter().collect(),
        owner: controller_reference(&SERVICES, &service.metadata),
    }
}

/// When what a Service's endpoints show happened.
pub(crate) fn trigger_time(service: &Service, pods: &[Arc<Pod>]) -> Option<String> {
    let times = pods.iter().map(|p| p.ready_since().or(p.metadata.creation_timestamp));
    let latest = times.chain([service.metadata.creation_timestamp]).flatten().max();
    latest.map(|at: Timestamp| at.to_string())
}

/// Endpoints by address type and ports.
fn plan_endpoints(
    service: &Service,
    pods: &[Arc<Pod>],
    families: &[String],
    zone: &dyn Fn(&str) -> Option<String>,
) -> BTreeMap<Group, Vec<Endpoint>> {
    let mut groups: BTreeMap<Group, Vec<Endpoint>> = BTreeMap::new();
    for pod in pods {
        let ports = ports(service, pod);
        for family in families {
            let Some(address) = address(pod, family) else { continue };
            let endpoint = endpoint(service, pod, address, zone);
            groups.entry((family.clone(), ports.clone())).or_default().push(endpoint);
        }
    }
    groups
}

/// The pod's address of a family.
pub(crate) fn address(pod: &Pod, family: &str) -> Option<String> {
    let first = std::iter::once(&*pod.status.pod_ip);
    let mut all = pod.status.pod_ips.iter().map(|ip| &*ip.ip).chain(first);
    all.find(|ip| !ip.is_empty() && ip.contains(':') == (family == "IPv6")).map(str::to_owned)
}

/// The Service's ports as this pod has them; a named port that the pod lacks is left out.
pub(crate) fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let mut ports: Vec<_> = service
        .spec
        .ports
        .iter()
        .filter_map(|port| {
            Some(EndpointPort {
                name: Some(port.name.clone()),
                port: Some(target(port, pod)?),
                protocol: Some(protocol(&port.protocol).to_owned()),
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect();
    ports.sort();
    ports
}

fn protocol(text: &str) -> &str {
    if text.is_empty() { "TCP" } else { text }
}

fn target(port: &ServicePort, pod: &Pod) -> Option<i64> {
    match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::Text(name)) => {
            let sidecars =
                pod.spec.init_containers.iter().filter(|c| c.restart_policy.as_deref() == Some("Always"));
            let mut all = pod.spec.containers.iter().chain(sidecars).flat_map(|c| &c.ports);
            let found = all.find(|p| *p.name == **name && protocol(&p.protocol) == protocol(&port.protocol));
            found.map(|p| i64::from(p.container_port))
        }
    }
}

fn endpoint(
    service: &Service,
    pod: &Pod,
    address: String,
    zone: &dyn Fn(&str) -> Option<String>,
) -> Endpoint {
    let (serving, terminating) = (pod.ready(), pod.metadata.deleting());
    let ready = service.spec.publish_not_ready_addresses || (serving && !terminating);
    let node = Some(pod.spec.node_name.to_string()).filter(|n| !n.is_empty());
    Endpoint {
        addresses: vec![address],
        conditions: EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        },
        hostname: hostname(service, pod),
        zone: node.as_deref().and_then(zone),
        node_name: node,
        target_ref: Some(target_ref(pod)),
    }
}

/// A pod has a name of its own in the zone of the Service that is its subdomain.
pub(crate) fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let named = !pod.spec.hostname.is_empty() && *pod.spec.subdomain == *service.metadata.name;
    named.then(|| pod.spec.hostname.to_string())
}

pub(crate) fn target_ref(pod: &Pod) -> TargetRef {
    TargetRef {
        kind: "Pod".to_owned(),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(name: &str, ready: bool, deleting: bool, port: u16) -> Arc<Pod> {
        let mut metadata = json!({"name": name, "namespace": "ns", "uid": name});
        if deleting {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let body = json!({
            "metadata": metadata,
            "spec": {"nodeName": "n", "hostname": name, "subdomain": "web",
                     "containers": [{"ports": [{"name": "http", "containerPort": port}]}]},
            "status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
                       "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
        });
        Arc::new(serde_json::from_value(body).unwrap())
    }

    fn service(extra: Value) -> Service {
        let mut spec = json!({
            "selector": {"app": "web"}, "ports": [{"name": "w", "port": 80, "protocol": "TCP", "targetPort": "http"}],
        });
        spec.as_object_mut().unwrap().extend(extra.as_object().cloned().unwrap());
        serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "ns"}, "spec": spec})).unwrap()
    }

    #[test]
    fn pods_become_endpoints_grouped_by_what_their_ports_are() {
        let pods = [pod("a", true, false, 8080), pod("b", false, false, 8080), pod("c", true, true, 9090)];
        let zone = |_: &str| Some("z1".to_owned());
        let groups = plan_endpoints(&service(json!({})), &pods, &["IPv4".to_owned()], &zone);
        let ports: Vec<_> = groups.keys().map(|(_, ports)| ports[0].port).collect();
        assert_eq!(ports, [Some(8080), Some(9090)]);
        let all: Vec<_> = groups.values().flatten().collect();
        let states: Vec<_> = all.iter().map(|e| &e.conditions).collect();
        let state = |ready, serving, terminating| EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        };
        assert_eq!(
            states,
            [&state(true, true, false), &state(false, false, false), &state(false, true, true)]
        );
        assert_eq!((all[0].zone.as_deref(), all[0].hostname.as_deref()), (Some("z1"), Some("a")));
        let eager = service(json!({"publishNotReadyAddresses": true}));
        let groups = plan_endpoints(&eager, &pods, &["IPv6".to_owned()], &zone);
        assert!(
            groups.values().flatten().all(|e| e.conditions.ready == Some(true) && e.addresses == ["fd00::1"])
        );
    }

    #[test]
    fn services_without_selector_or_with_a_name_elsewhere_are_not_ours() {
        assert!(selector(&service(json!({"selector": null}))).is_none());
        assert!(selector(&service(json!({"type": "ExternalName"}))).is_none());
        assert!(selector(&service(json!({}))).is_some());
    }
}
