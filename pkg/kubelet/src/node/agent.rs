//! Registers the node and keeps its status true.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use copepod_client::{Client, Delta, Informer, InformerConfig, Patch, resources::NODES};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, NodeStatus};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::info::{self, Machine};
use super::status::{self, NodeInput, render_node, render_node_status};
use crate::admission::{NodeFacts, NodeFetch};
use crate::config::Config;
use crate::kubelet::Kubelet;
use crate::ports::{EventKind, EventSink};
use crate::runtime_state::RuntimeState;

/// How long a write of ours is waited for in the watch; it takes milliseconds.
const OWN_WRITE: Duration = Duration::from_secs(2);

/// What a [`NodeAgent`] works with.
pub struct NodeAgentParts {
    /// Configuration.
    pub config: Arc<Config>,
    /// Machine facts.
    pub machine: Machine,
    /// The core, told what admission compares with.
    pub kubelet: Arc<Kubelet>,
    /// The API server.
    pub client: Client,
}

impl std::fmt::Debug for NodeAgentParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeAgentParts").field("machine", &self.machine).finish_non_exhaustive()
    }
}

/// Keeps the Node object.
pub struct NodeAgent {
    config: Arc<Config>,
    machine: Machine,
    kubelet: Arc<Kubelet>,
    client: Client,
    /// Our own Node, as the server has it.
    object: Informer<Node>,
    written: Mutex<Option<(NodeStatus, Instant)>>,
    pod_cidr: Mutex<String>,
}

impl std::fmt::Debug for NodeAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeAgent").field("node", &self.config.node_name).finish_non_exhaustive()
    }
}

impl NodeFetch for NodeAgent {
    fn fetch(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            match self.client.get(&NODES.object("", &self.config.node_name)).await {
                Ok(node) => self.learn(&node),
                Err(error) => {
                    tracing::debug!(error = %copepod_client::chain(&error), "node not read");
                }
            }
        })
    }
}

impl NodeAgent {
    /// An agent; nothing is written before [`NodeAgent::run`].
    #[must_use]
    pub fn new(parts: NodeAgentParts) -> Arc<Self> {
        let NodeAgentParts { config, machine, kubelet, client } = parts;
        let own = format!("metadata.name={}", config.node_name);
        let object = Informer::new(InformerConfig::all(NODES).fields(own));
        let agent = Arc::new_cyclic(|agent: &Weak<Self>| {
            kubelet.admission.set_fetch(agent.clone());
            Self {
                config,
                machine,
                kubelet,
                client,
                object,
                written: Mutex::default(),
                pod_cidr: Mutex::default(),
            }
        });
        let learning = Arc::downgrade(&agent);
        agent.object.on_change(move |_, delta| match (learning.upgrade(), delta) {
            (Some(agent), Delta::Added(node) | Delta::Updated { new: node, .. }) => agent.learn(node),
            (None, _) | (_, Delta::Deleted(_)) => {}
        });
        agent
    }

    fn state(&self) -> &Arc<RuntimeState> {
        &self.kubelet.node
    }

    fn events(&self) -> &Arc<dyn EventSink> {
        &self.kubelet.events
    }

    /// Registers, then writes status on every change until shutdown; the heartbeat runs beside it.
    pub async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        self.events().node_event(EventKind::Normal, "Starting", "Starting kubelet.");
        let mut retry = Duration::from_millis(200);
        while let Err(error) = self.register().await {
            tracing::debug!(error = %copepod_client::chain(&error), "node not registered yet");
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep(retry) => {}
            }
            retry = (retry * 2).min(Duration::from_secs(5));
        }
        // Mirror pods could not be made before: they belong to the node.
        if let Some(workers) = self.kubelet.workers.get() {
            workers.wake_all();
        }
        let lease = super::lease::run(
            self.client.clone(),
            self.config.node_name.clone(),
            self.config.node_lease_duration,
            shutdown.clone(),
        );
        copepod_supervisor::spawn("node lease", lease);
        self.object.start(&self.client, &shutdown);
        let mut changes = self.state().changes();
        let mut object = self.object.changes();
        loop {
            let wait = match self.write_status().await {
                Ok(()) => self.config.node_status_update_frequency,
                Err(error) if error.not_found() => {
                    *self.written.lock() = None;
                    if let Err(error) = self.register().await {
                        tracing::debug!(error = %copepod_client::chain(&error), "node not registered again");
                    }
                    Duration::from_secs(1)
                }
                Err(error) => {
                    tracing::debug!(error = %copepod_client::chain(&error), "node status not written");
                    Duration::from_secs(1)
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                // The sender lives in the state, which we hold.
                _ = changes.changed() => {}
                () = self.called(&mut object) => {}
                () = sleep(wait) => {}
            }
        }
    }

    /// Returns when a change of the Node object asks for something: it is gone, or it has got a pod range.
    async fn called(&self, changes: &mut watch::Receiver<()>) {
        // The sender lives in the informer, which we hold.
        while changes.changed().await.is_ok() {
            match self.object.get("", &self.config.node_name) {
                Some(node) if self.new_cidr(&node).is_none() => {}
                _ => return,
            }
        }
    }

    async fn input(&self) -> NodeInput<'_> {
        let storage = info::filesystem(&self.config.root_dir).map_or(0, |f| f.0);
        let images = self.kubelet.images.list_images(None).await.unwrap_or_default();
        let state = self.state();
        let problems = state.runtime_problem().into_iter().chain(state.network_problem()).collect();
        NodeInput {
            config: &self.config,
            machine: &self.machine,
            addresses: &[],
            storage,
            runtime_version: state.runtime_version(),
            handlers: state.handlers(),
            supplemental_groups_policy: state.supplemental_groups_policy(),
            problems,
            pressure: self.kubelet.pressure(),
            images,
            now: copepod_sys::clock::now(),
        }
    }

    /// Creates the Node, or brings an existing one's labels up to date.
    async fn register(&self) -> Result<(), copepod_client::ClientError> {
        let addresses = self.state().host_ips();
        let mut input = self.input().await;
        input.addresses = &addresses;
        let node = render_node(&input);
        let created = self.client.create::<Node>(&NODES.collection(""), &node).await;
        let node = match created {
            Ok(node) => {
                tracing::info!(node = self.config.node_name, "node registered");
                node
            }
            Err(error) if error.is_already_exists() => {
                let patch = json!({"metadata": {
                    "labels": status::well_known_labels(&self.config, &self.machine),
                    "annotations": node.metadata.annotations,
                }});
                self.client.patch(&NODES.object("", &self.config.node_name), &Patch::Strategic(patch)).await?
            }
            Err(error) => return Err(error),
        };
        self.learn(&node);
        Ok(())
    }

    /// What the rest of the kubelet needs to know of the Node object.
    fn learn(&self, node: &Node) {
        let status = node.status.clone().unwrap_or_default();
        let allocatable: BTreeMap<_, _> = status
            .allocatable
            .into_iter()
            .flatten()
            .filter_map(|(k, v)| Some((k, v.0.parse().ok()?)))
            .collect();
        let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
        self.kubelet.admission.set_facts(NodeFacts {
            labels: node.metadata.labels.clone().unwrap_or_default(),
            allocatable,
            taints: taints
                .map(|t| (t.key.clone(), t.value.clone().unwrap_or_default(), t.effect.clone()))
                .collect(),
        });
    }

    async fn write_status(&self) -> Result<(), copepod_client::ClientError> {
        let target = NODES.object("", &self.config.node_name);
        let stored = match self.object.get("", &self.config.node_name) {
            Some(node) => node,
            None => Arc::new(self.client.get(&target).await?),
        };
        self.announce_cidr(&stored).await;
        let addresses = self.state().host_ips();
        let mut input = self.input().await;
        input.addresses = &addresses;
        let new = render_node_status(&input, stored.status.as_ref());
        let last = self.written.lock().clone();
        let due = match &last {
            Some((old, at)) => {
                status::changed(old, &new) || at.elapsed() >= self.config.node_status_report_frequency
            }
            None => true,
        };
        if !due {
            return Ok(());
        }
        let patch = render_status_patch(&new);
        let patched: Node =
            self.client.patch(&target.subresource("status"), &Patch::Strategic(patch)).await?;
        // The next look must know this write, or it would tell the same transitions again.
        let revision = patched.metadata.resource_version.unwrap_or_default();
        self.object.wait_revision(&revision, OWN_WRITE).await;
        self.tell_transitions(stored.status.as_ref(), &new, last.is_none());
        *self.written.lock() = Some((new, Instant::now()));
        Ok(())
    }

    /// The pod range, when the runtime has not been told of it.
    fn new_cidr(&self, node: &Node) -> Option<String> {
        let cidr = node.spec.as_ref().and_then(|s| s.pod_cidr.clone());
        cidr.or_else(|| self.config.pod_cidr.clone()).filter(|c| *c != *self.pod_cidr.lock())
    }

    async fn announce_cidr(&self, node: &Node) {
        let Some(cidr) = self.new_cidr(node) else { return };
        match self.kubelet.runtime.update_runtime_config(cidr.clone()).await {
            Ok(()) => *self.pod_cidr.lock() = cidr,
            Err(error) => tracing::warn!(cidr, %error, "runtime does not take the pod range"),
        }
    }

    /// Events of conditions that changed (or at the start).
    fn tell_transitions(&self, old: Option<&NodeStatus>, new: &NodeStatus, first: bool) {
        let table = [
            ("MemoryPressure", "NodeHasInsufficientMemory", "NodeHasSufficientMemory"),
            ("DiskPressure", "NodeHasDiskPressure", "NodeHasNoDiskPressure"),
            ("PIDPressure", "NodeHasInsufficientPID", "NodeHasSufficientPID"),
            ("Ready", "NodeReady", "NodeNotReady"),
        ];
        for (kind, on, off) in table {
            let status_in = |s: &NodeStatus| {
                s.conditions.iter().flatten().find(|c| c.type_ == kind).map(|c| c.status.clone())
            };
            let now = status_in(new);
            let before = old.and_then(status_in);
            if first || before != now {
                let reason = if now.as_deref() == Some("True") { on } else { off };
                let text = format!("Node {} status is now: {reason}", self.config.node_name);
                self.events().node_event(EventKind::Normal, reason, &text);
            }
        }
    }
}

/// The status as a patch; addresses are replaced as a whole.
fn render_status_patch(status: &NodeStatus) -> Value {
    let mut body = serde_json::to_value(status).unwrap_or_else(|_| json!({}));
    if let Some(addresses) = body.get_mut("addresses").and_then(Value::as_array_mut) {
        addresses.insert(0, json!({"$patch": "replace"}));
    }
    json!({ "status": body })
}
