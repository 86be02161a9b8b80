//! The loop: take a pod, look at the cluster, decide, bind; or say why not.

use std::collections::BTreeMap;
use std::sync::Arc;

use copepod_client::resources::{NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, PODS};
use copepod_client::{
    Client, ClientError, DeleteOptions, Delta, EventKind, Informer, InformerConfig, Meta, ObjectKey,
    ObjectRef, OptionalExt, Patch, Recorder, chain,
};
use copepod_sys::clock;
use copepod_telemetry::Exposition;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::claims::Claims;
use crate::config::Config;
use crate::devices::{Devices, Obstacle};
use crate::filter::{feasible, summary};
use crate::node::Node;
use crate::pod::Pod;
use crate::preempt::{Budget, Candidate, plan_preemption};
use crate::queue::Queue;
use crate::score;
use crate::selector::{Labels, Selector};
use crate::snapshot::Snapshot;

#[derive(Debug, Deserialize)]
struct Namespace {
    metadata: Meta,
}

#[derive(Debug, Deserialize)]
struct DisruptionBudget {
    metadata: Meta,
    #[serde(default)]
    spec: BudgetSpec,
    #[serde(default)]
    status: BudgetStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BudgetSpec {
    selector: Selector,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BudgetStatus {
    disruptions_allowed: i64,
}

/// The scheduler; clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Scheduler {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    recorder: Recorder,
    name: String,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    namespaces: Informer<Namespace>,
    budgets: Informer<DisruptionBudget>,
    claims: Claims,
    devices: Devices,
    cluster: Mutex<Snapshot>,
    queue: Queue,
    attempts: Mutex<BTreeMap<&'static str, u64>>,
}

/// What one attempt came to.
enum Attempt {
    Bind(Arc<Node>),
    /// It waits for something to come into being, and there is nothing to say.
    Hold,
    /// Nowhere to go; the message, and whom to displace where.
    Unschedulable(String, Option<Candidate>),
}

impl Scheduler {
    pub(crate) fn new(client: Client, config: &Config) -> Self {
        let all = InformerConfig::all;
        let not_finished = "status.phase!=Succeeded,status.phase!=Failed";
        let shared = Shared {
            recorder: Recorder::events_v1(&client, &config.scheduler_name, &instance(config)),
            name: config.scheduler_name.clone(),
            pods: Informer::new(all(PODS).fields(not_finished)),
            nodes: Informer::new(all(NODES)),
            namespaces: Informer::new(all(NAMESPACES).metadata_only()),
            budgets: Informer::new(all(POD_DISRUPTION_BUDGETS)),
            claims: Claims::new(),
            devices: Devices::new(),
            cluster: Mutex::new(Snapshot::default()),
            queue: Queue::default(),
            attempts: Mutex::new(BTreeMap::new()),
            client,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Follows the cluster and places pods until `stop`.
    pub(crate) async fn run(&self, stop: &CancellationToken) {
        let shared = &self.shared;
        self.follow();
        shared.nodes.start(&shared.client, stop);
        shared.namespaces.start(&shared.client, stop);
        shared.budgets.start(&shared.client, stop);
        shared.claims.start(&shared.client, stop);
        shared.devices.start(&shared.client, stop);
        shared.nodes.synced().await;
        shared.claims.synced().await;
        shared.devices.synced().await;
        shared.pods.start(&shared.client, stop);
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.place_pods() => {}
        }
        shared.queue.close();
    }

    /// Connects what changes in the cluster with the snapshot and the queue.
    fn follow(&self) {
        let this = self.clone();
        self.shared.pods.on_change(move |key, delta| this.on_pod(key, delta));
        let this = self.clone();
        self.shared.nodes.on_change(move |key, delta| {
            let mut cluster = this.shared.cluster.lock();
            match delta {
                Delta::Deleted(_) => cluster.remove_node(&key.name),
                other => cluster.set_node(Arc::clone(other.object())),
            }
            drop(cluster);
            // A heartbeat changes nothing that matters here.
            let same = |old: &Node, new: &Node| {
                old.labels == new.labels
                    && old.taints == new.taints
                    && old.unschedulable == new.unschedulable
                    && old.allocatable == new.allocatable
            };
            if delta.old().is_none_or(|old| !same(old, delta.object())) {
                this.shared.queue.stir();
            }
        });
        let this = self.clone();
        self.shared.namespaces.on_change(move |key, delta| {
            let mut cluster = this.shared.cluster.lock();
            match delta {
                Delta::Deleted(_) => drop(cluster.namespaces.remove(&key.name)),
                other => {
                    let labels: Labels = other.object().metadata.labels.clone();
                    drop(cluster.namespaces.insert(key.name.clone(), labels));
                }
            }
        });
        let this = self.clone();
        self.shared.claims.on_change(move || this.shared.queue.stir());
        let this = self.clone();
        self.shared.devices.on_change(move || this.shared.queue.stir());
    }

    fn on_pod(&self, key: &ObjectKey, delta: &Delta<Pod>) {
        let shared = &self.shared;
        let pod = delta.object();
        if matches!(delta, Delta::Deleted(_)) {
            shared.queue.remove(key);
            shared.cluster.lock().remove_pod(key);
            // Room was made, or somebody to stay away from is gone.
            return shared.queue.stir();
        }
        shared.cluster.lock().set_pod(pod);
        if !pod.node_name.is_empty() || pod.finished || pod.deleting {
            shared.queue.remove(key);
            if delta.old().is_none_or(|old| {
                old.node_name.is_empty() || old.labels != pod.labels || old.requests != pod.requests
            }) {
                shared.queue.stir();
            }
        } else if *pod.scheduler_name == *shared.name {
            shared.queue.put(Arc::clone(pod));
        }
    }

    async fn place_pods(&self) {
        while let Some(pod) = self.shared.queue.next().await {
            match self.attempt(&pod) {
                Attempt::Bind(node) => self.bind(pod, &node),
                Attempt::Hold => self.shared.queue.park(&pod.key),
                Attempt::Unschedulable(message, candidate) => {
                    self.count("unschedulable");
                    self.give_up(&pod, &message, candidate).await;
                }
            }
        }
    }

    /// Decides about one pod, and reserves its place if there is one.
    fn attempt(&self, pod: &Arc<Pod>) -> Attempt {
        let shared = &self.shared;
        let mut cluster = shared.cluster.lock();
        let total = cluster.nodes().count();
        if total == 0 {
            return Attempt::Unschedulable("no nodes available to schedule pods".to_owned(), None);
        }
        let obstacle = shared.devices.check(pod);
        if obstacle == Some(Obstacle::Hold) {
            return Attempt::Hold;
        }
        let wanted = match shared.claims.check(pod) {
            Ok(wanted) => wanted,
            Err(why) => {
                // The last words are upstream's too: preemption has no node to look at.
                let text = format!("0/{total} nodes are available: {why}. not found");
                return Attempt::Unschedulable(text, None);
            }
        };
        const UNHELPFUL: &str = "Preemption is not helpful for scheduling";
        if let Some(Obstacle::Nowhere(why)) = &obstacle {
            let head = format!("0/{total} nodes are available:");
            let text = format!("{head} {why}. preemption: {head} {total} {UNHELPFUL}.");
            return Attempt::Unschedulable(text, None);
        }
        let nominated = shared.queue.nominated();
        let mut answer = feasible(pod, &cluster, &nominated);
        wanted.filter(pod, &cluster, &mut answer);
        let mut before = "";
        if let Some(Obstacle::Each(refusal)) = obstacle {
            before = "still not schedulable, ";
            let fits = std::mem::take(&mut answer.fits);
            answer.refused.extend(fits.iter().map(|node| (node.name.clone(), refusal.clone())));
        }
        if let Some(node) = score::best(pod, &cluster, &answer.fits) {
            let mut placed = (**pod).clone();
            placed.node_name.clone_from(&node.name);
            cluster.set_pod(&Arc::new(placed));
            return Attempt::Bind(node);
        }
        let (after, candidate) = self.plan_room(pod, &cluster, &answer.refused);
        Attempt::Unschedulable(summary(&answer.refused, total, &format!("{before}{after}")), candidate)
    }

    /// What preemption can do; the text is upstream's.
    fn plan_room(
        &self,
        pod: &Pod,
        cluster: &Snapshot,
        refused: &BTreeMap<Box<str>, crate::filter::Refusal>,
    ) -> (String, Option<Candidate>) {
        if !pod.preempts {
            return ("preemption: not eligible due to preemptionPolicy=Never.".to_owned(), None);
        }
        // Victims of an earlier attempt are still on their way out.
        let going = cluster.node(&pod.nominated_node).is_some_and(|info| {
            info.pods.iter().any(|other| other.deleting && other.priority < pod.priority)
        });
        if going {
            let text = "preemption: not eligible due to a terminating pod on the nominated node.";
            return (text.to_owned(), None);
        }
        let budgets: Vec<Budget> = self
            .shared
            .budgets
            .list()
            .iter()
            .map(|b| Budget {
                namespace: b.metadata.namespace.clone(),
                selector: b.spec.selector.clone(),
                allowed: b.status.disruptions_allowed,
            })
            .collect();
        match plan_preemption(pod, cluster, refused, &budgets) {
            Ok(found) => {
                let text = format!(
                    "preemption: found a potential placement for pod on node {}, preempting {} victims",
                    found.node,
                    found.victims.len()
                );
                (text, Some(found))
            }
            Err(why) => (format!("preemption: {}", summary(&why, refused.len(), "")), None),
        }
    }

    /// Binds in the background; the place is reserved already.
    fn bind(&self, pod: Arc<Pod>, node: &Arc<Node>) {
        let (this, node) = (self.clone(), Arc::clone(node));
        copepod_supervisor::spawn("bind", async move {
            match this.try_bind(&pod, &node).await {
                Ok(true) => {
                    this.count("scheduled");
                    let note = format!("Successfully assigned {} to {}", pod.key, node.name);
                    this.event(&pod, EventKind::Normal, ("Scheduled", "Binding"), note);
                }
                Ok(false) => this.release(&pod),
                Err(error) => {
                    this.count("error");
                    tracing::info!(pod = %pod.key, error = chain(&error), "binding failed");
                    this.release(&pod);
                    if !error.not_found() {
                        let text = format!("binding rejected: {error}");
                        this.event(&pod, EventKind::Warning, ("FailedScheduling", "Scheduling"), text);
                    }
                }
            }
        });
    }

    /// Claims first, then the pod. `false` when claims have to be provisioned before.
    async fn try_bind(&self, pod: &Pod, node: &Node) -> Result<bool, ClientError> {
        let shared = &self.shared;
        if !shared.claims.prepare(&shared.client, pod, node).await? {
            return Ok(false);
        }
        let target = PODS.object(&pod.key.namespace, &pod.key.name).subresource("binding");
        let body = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": pod.key.name, "namespace": pod.key.namespace, "uid": pod.uid},
            "target": {"kind": "Node", "name": node.name},
        });
        shared.client.create::<Value>(&target, &body).await.map(|_| true)
    }

    /// Gives a reserved place back and queues the pod again.
    fn release(&self, pod: &Pod) {
        let mut cluster = self.shared.cluster.lock();
        cluster.remove_pod(&pod.key);
        if let Some(real) = self.shared.pods.get_key(&pod.key) {
            cluster.set_pod(&real);
        }
        drop(cluster);
        self.shared.queue.retry(&pod.key);
    }

    /// Tells why the pod waits, makes room if that was decided, and puts it back.
    async fn give_up(&self, pod: &Pod, message: &str, candidate: Option<Candidate>) {
        self.event(pod, EventKind::Warning, ("FailedScheduling", "Scheduling"), message);
        let nominated = candidate.as_ref().map(|c| &*c.node);
        let known = pod.unscheduled_because.as_ref();
        let told = known.is_some_and(|(reason, text)| &**reason == "Unschedulable" && **text == *message);
        let stale = nominated.is_some_and(|node| *node != *pod.nominated_node);
        if !told || stale {
            let condition = json!({
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
                "lastProbeTime": null, "lastTransitionTime": format!("{:.0}", clock::now()),
            });
            let mut status = json!({"conditions": [condition]});
            if let Some(node) = nominated {
                status["nominatedNodeName"] = json!(node);
            }
            self.patch_status(&pod.key, &pod.uid, status).await;
        }
        self.shared.queue.park(&pod.key);
        if let Some(candidate) = candidate {
            for victim in &candidate.victims {
                if let Err(error) = self.evict(pod, victim, &candidate.node).await {
                    tracing::info!(victim = %victim.key, error = chain(&error), "cannot preempt");
                }
            }
        }
    }

    async fn patch_status(&self, key: &ObjectKey, uid: &str, status: Value) {
        let target = PODS.object(&key.namespace, &key.name).subresource("status");
        let patch = Patch::Strategic(json!({"metadata": {"uid": uid}, "status": status}));
        if let Err(error) = self.shared.client.patch::<Value>(&target, &patch).await.optional() {
            tracing::info!(pod = %key, error = chain(&error), "cannot write the pod's condition");
        }
    }

    async fn evict(&self, pod: &Pod, victim: &Pod, node: &str) -> Result<(), ClientError> {
        let message = format!("{}: preempting to accommodate a higher priority pod", self.shared.name);
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": message,
            "lastProbeTime": null, "lastTransitionTime": format!("{:.0}", clock::now()),
        });
        self.patch_status(&victim.key, &victim.uid, json!({"conditions": [condition]})).await;
        let target = PODS.object(&victim.key.namespace, &victim.key.name);
        self.shared.client.delete(&target, &DeleteOptions::uid(&victim.uid)).await.optional()?;
        let note = format!("Preempted by pod {} on node {node}", pod.uid);
        self.event(victim, EventKind::Normal, ("Preempted", "Preempting"), note);
        Ok(())
    }

    fn event(&self, pod: &Pod, kind: EventKind, what: (&str, &str), note: impl Into<String>) {
        let object = ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: pod.key.namespace.clone(),
            name: pod.key.name.clone(),
            uid: pod.uid.to_string(),
            resource_version: pod.resource_version.to_string(),
            field_path: String::new(),
        };
        self.shared.recorder.action(object, kind, what.0, what.1, note);
    }

    fn count(&self, result: &'static str) {
        *self.shared.attempts.lock().entry(result).or_default() += 1;
    }

    /// Prometheus text.
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    pub(crate) fn metrics(&self) -> String {
        let mut text = Exposition::default();
        let attempts = "scheduler_schedule_attempts_total";
        let help = "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while 'error' means an internal scheduler problem.";
        text.family(attempts, "counter", help);
        for (result, count) in &*self.shared.attempts.lock() {
            let labels = [("profile", self.shared.name.as_str()), ("result", *result)];
            text.sample(attempts, &labels, *count as f64);
        }
        let pending = "scheduler_pending_pods";
        text.family(pending, "gauge", "Number of pending pods, by the queue type.");
        let names = ["active", "backoff", "unschedulable", "gated"];
        for (name, count) in names.iter().zip(self.shared.queue.counts()) {
            text.sample(pending, &[("queue", *name)], count as f64);
        }
        copepod_client::metrics::write(&mut text);
        text.into_string()
    }
}

fn instance(config: &Config) -> String {
    format!("{}-{}", config.scheduler_name, config.host)
}
