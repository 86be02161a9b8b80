//! Informers as one queue of events.

use std::sync::Arc;

use copepod_client::{Client, Delta, Informer, InformerConfig, Labels, Meta, ObjectKey, resources};
use copepod_netcalc::{Calculator, NodeFacts, ServiceName, ServiceView, SliceView};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Services and slices that are somebody else's, as upstream's watch leaves them out.
const SELECTOR: &str = "!service.kubernetes.io/service-proxy-name,!service.kubernetes.io/headless";
const ZONE: &str = "topology.kubernetes.io/zone";
/// The cluster autoscaler is about to delete the node: load balancers should leave it.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// What is read of a Node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeView {
    metadata: Meta,
    spec: NodeSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    taints: Vec<Taint>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Taint {
    key: String,
}

impl NodeView {
    pub(crate) fn labels(&self) -> &Labels {
        &self.metadata.labels
    }

    /// Whether load balancers should send traffic here.
    pub(crate) fn is_eligible(&self) -> bool {
        !self.metadata.deleting() && !self.spec.taints.iter().any(|t| t.key == TO_BE_DELETED)
    }
}

/// One change of the API's state.
#[derive(Debug)]
pub(crate) enum Event {
    Service(ObjectKey, Option<Arc<ServiceView>>),
    Slice(ObjectKey, Option<Arc<SliceView>>),
    Node(Option<Arc<NodeView>>),
}

fn current<T>(delta: &Delta<T>) -> Option<Arc<T>> {
    match delta {
        Delta::Deleted(_) => None,
        other => Some(Arc::clone(other.object())),
    }
}

/// The running informers.
#[derive(Debug)]
pub(crate) struct Feed {
    services: Informer<ServiceView>,
    slices: Informer<SliceView>,
    node: Informer<NodeView>,
    pub(crate) events: mpsc::UnboundedReceiver<Event>,
}

impl Feed {
    /// Starts following the API.
    pub(crate) fn start(client: &Client, node: &str, shutdown: &CancellationToken) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let services = Informer::new(InformerConfig::all(resources::SERVICES).labels(SELECTOR));
        let slices = Informer::new(InformerConfig::all(resources::ENDPOINT_SLICES).labels(SELECTOR));
        let own = InformerConfig::all(resources::NODES).fields(format!("metadata.name={node}"));
        let node = Informer::new(own);
        // The receiver lives as long as the proxy; a send can fail only while everything ends.
        let tx = sender.clone();
        services.on_change(move |key, delta| drop(tx.send(Event::Service(key.clone(), current(delta)))));
        let tx = sender.clone();
        slices.on_change(move |key, delta| drop(tx.send(Event::Slice(key.clone(), current(delta)))));
        node.on_change(move |_, delta| drop(sender.send(Event::Node(current(delta)))));
        services.start(client, shutdown);
        slices.start(client, shutdown);
        node.start(client, shutdown);
        Self { services, slices, node, events }
    }

    /// Returns once everything has been listed.
    pub(crate) async fn synced(&self) {
        tokio::join!(self.services.synced(), self.slices.synced(), self.node.synced());
    }
}

/// Hands one event to the calculation.
pub(crate) fn absorb(calc: &mut Calculator, event: Event, facts: &NodeFacts) {
    match event {
        Event::Service(key, view) => {
            let name = ServiceName::new(&key.namespace, &key.name);
            calc.on_service(name, view.map(|v| (*v).clone()));
        }
        Event::Slice(key, view) => calc.on_slice(&key.namespace, &key.name, view.as_deref()),
        Event::Node(view) => {
            let zone = view.as_ref().and_then(|v| v.labels().get(ZONE).cloned()).unwrap_or_default();
            calc.on_node(NodeFacts { zone, ..facts.clone() });
        }
    }
}
