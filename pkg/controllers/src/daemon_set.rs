//! DaemonSets: one pod on every node that takes it.

mod backoff;
mod update;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use copepod_client::resources::{DAEMON_SETS, PODS};
use copepod_client::{EventKind, ObjectKey, Outcome, WorkQueue};
use copepod_sys::clock;
use jiff::Timestamp;
use serde_json::{Value, json};

use backoff::Backoffs;

use crate::context::{Context, SyncResult, enqueue, enqueue_owner};
use crate::history::{self, HASH, Owner, hash_of};
use crate::node_match::{selects, tolerates};
use crate::ownership::{Claimant, controller_reference, plan_claim};
use crate::replica_set::report_creations;
use crate::status::plan_status;
use crate::step::{Step, event, execute, execute_all, execute_slow_start};
use crate::template::pod_from;
use crate::views::{DaemonSet, DaemonSetStatus, HasMeta, Node, Pod, Toleration};

/// What a daemon bears without being told: key, effect, and whether only on the host's network.
const BORNE: [(&str, &str, bool); 7] = [
    ("node.kubernetes.io/not-ready", "NoExecute", false),
    ("node.kubernetes.io/unreachable", "NoExecute", false),
    ("node.kubernetes.io/disk-pressure", "NoSchedule", false),
    ("node.kubernetes.io/memory-pressure", "NoSchedule", false),
    ("node.kubernetes.io/pid-pressure", "NoSchedule", false),
    ("node.kubernetes.io/unschedulable", "NoSchedule", false),
    ("node.kubernetes.io/network-unavailable", "NoSchedule", true),
];
const GENERATION: &str = "pod-template-generation";

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    enqueue(&context.caches.daemon_sets, &queue);
    enqueue_owner(&context.caches.pods, &queue, &DAEMON_SETS);
    enqueue_owner(&context.caches.controller_revisions, &queue, &DAEMON_SETS);
    let (owner, nodes) = (context.clone(), queue.clone());
    context.caches.nodes.on_change(move |_, delta| {
        let same =
            |old: &Node, new: &Node| old.metadata.labels == new.metadata.labels && old.spec == new.spec;
        if delta.old().is_none_or(|old| !same(old, delta.object())) {
            owner.caches.daemon_sets.list().iter().for_each(|set| nodes.add(set.metadata.key()));
        }
    });
    let (owner, orphans) = (context.clone(), queue.clone());
    context.caches.pods.on_change(move |key, delta| {
        if delta.object().meta().controller().is_none() {
            let sets = owner.caches.daemon_sets.list_namespace(&key.namespace);
            let matching =
                sets.iter().filter(|s| s.spec.selector.compiled.matches(&delta.object().metadata.labels));
            matching.for_each(|set| orphans.add(set.metadata.key()));
        }
    });
    let backoffs = Arc::new(Backoffs::default());
    context.work(&queue, 2, move |context, key| {
        let backoffs = Arc::clone(&backoffs);
        async move { sync(context, key, &backoffs).await }
    });
}

/// What is decided from.
struct State<'a> {
    set: &'a DaemonSet,
    template: Value,
    tolerations: Vec<Toleration>,
    nodes: Vec<Arc<Node>>,
    /// Pods by node.
    pods: BTreeMap<String, Vec<Arc<Pod>>>,
    /// Hash of the present revision.
    hash: String,
    /// Nodes on which a failed pod is left a while longer, so that failures do not follow each other at full speed.
    held: BTreeSet<String>,
    now: Timestamp,
}

impl State<'_> {
    /// Pods on a node; those that have ended and are on their way out do not count any more.
    fn on(&self, node: &Node) -> Vec<Arc<Pod>> {
        let pods = self.pods.get(&node.metadata.name).into_iter().flatten();
        pods.filter(|p| !(p.metadata.deleting() && p.finished())).cloned().collect()
    }
}

/// What is to be done.
#[derive(Debug, Default)]
struct Plan {
    create: Vec<String>,
    delete: Vec<Arc<Pod>>,
}

async fn sync(context: Context, key: ObjectKey, backoffs: &Backoffs) -> SyncResult {
    let Some(set) = context.caches.daemon_sets.get_key(&key) else { return Ok(Outcome::Done) };
    if set.spec.selector.compiled.is_empty() || set.metadata.deleting() {
        return Ok(Outcome::Done);
    }
    let template = set.spec.template.value();
    let owner = Owner {
        resource: &DAEMON_SETS,
        meta: &set.metadata,
        selector: &set.spec.selector,
        limit: set.spec.revision_history_limit.unwrap_or(10),
        collisions: set.status.collision_count,
    };
    let history = history::ensure(&context, owner, &template).await?;
    let hash = hash_of(&history.current).to_owned();
    let mut state = gather(&context, &set, template, hash).await?;
    let wait = backoffs.hold(&mut state);
    let plan = plan(&state);
    let failure = carry_out(&context, &state, plan).await;
    let state = gather(&context, &set, state.template, state.hash).await?;
    let status = plan_new_status(&state);
    let mut steps: Vec<_> =
        plan_status(&DAEMON_SETS, &set.metadata, &set.status, &status).into_iter().collect();
    let live: Vec<_> = state.pods.values().flatten().map(|p| p.metadata.label(HASH)).collect();
    steps.extend(history::plan_clean_up(owner, &history, &live));
    execute_all(&context, steps).await?;
    match failure {
        Some(error) => Err(error),
        None if status.number_ready != status.number_available => {
            Ok(Outcome::After(std::time::Duration::from_secs(1)))
        }
        None => Ok(wait.map_or(Outcome::Done, Outcome::After)),
    }
}

async fn gather<'a>(
    context: &Context,
    set: &'a DaemonSet,
    template: Value,
    hash: String,
) -> Result<State<'a>, copepod_client::ClientError> {
    let claimant =
        Claimant { resource: &DAEMON_SETS, meta: &set.metadata, selector: &set.spec.selector.compiled };
    let candidates = context.caches.pods.list_namespace(&set.metadata.namespace);
    let claimed = plan_claim(claimant, &PODS, candidates);
    execute_all(context, claimed.steps).await?;
    let mut pods: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in claimed.owned {
        // One that is not bound yet is told apart by the node its affinity means.
        let bound = Some(&*pod.spec.node_name).filter(|n| !n.is_empty());
        let node = bound.or(pod.spec.affinity.0.as_deref()).unwrap_or_default().to_owned();
        pods.entry(node).or_default().push(pod);
    }
    let tolerations = tolerations(&template);
    let nodes = context.caches.nodes.list();
    Ok(State { set, template, tolerations, nodes, pods, hash, held: BTreeSet::new(), now: clock::now() })
}

fn tolerations(template: &Value) -> Vec<Toleration> {
    let own = template.pointer("/spec/tolerations").cloned().unwrap_or_else(|| json!([]));
    let mut all: Vec<Toleration> = serde_json::from_value(own).unwrap_or_default();
    let host = template.pointer("/spec/hostNetwork") == Some(&Value::Bool(true));
    all.extend(BORNE.iter().filter(|(_, _, only_host)| host || !only_host).map(|(key, effect, _)| {
        Toleration {
            key: (*key).into(),
            operator: "Exists".into(),
            effect: (*effect).into(),
            ..Toleration::default()
        }
    }));
    all
}

/// Whether a pod should be made on the node, and whether one that is there may stay.
fn wanted(state: &State<'_>, node: &Node) -> (bool, bool) {
    if !selects(&state.template, node) {
        return (false, false);
    }
    let taints = &node.spec.taints;
    let run = tolerates(&state.tolerations, taints, &["NoSchedule", "NoExecute"]);
    (run, tolerates(&state.tolerations, taints, &["NoExecute"]))
}

fn plan(state: &State<'_>) -> Plan {
    let mut plan = Plan::default();
    for node in &state.nodes {
        let (run, stay) = wanted(state, node);
        let here = state.on(node);
        let present: Vec<_> = here.iter().filter(|p| !p.metadata.deleting()).cloned().collect();
        if !stay {
            plan.delete.extend(present);
        } else if here.is_empty() {
            if run {
                plan.create.push(node.metadata.name.clone());
            }
        } else {
            let (mut ended, running): (Vec<_>, Vec<_>) = present.into_iter().partition(|p| p.finished());
            if state.held.contains(&node.metadata.name) {
                ended.retain(|p| &*p.status.phase != "Failed");
            }
            plan.delete.extend(ended);
            plan.delete.extend(update::plan_surplus(state, running));
        }
    }
    let known = |name: &String| state.nodes.iter().any(|n| n.metadata.name == *name);
    let lost = state.pods.iter().filter(|(name, _)| !known(name)).flat_map(|(_, pods)| pods);
    plan.delete.extend(lost.filter(|p| !p.metadata.deleting()).cloned());
    // What is there is put right before anything is replaced.
    if &*state.set.spec.update_strategy.r#type != "OnDelete"
        && plan.create.is_empty()
        && plan.delete.is_empty()
    {
        update::plan_update(state, &mut plan);
    }
    plan
}

async fn carry_out(context: &Context, state: &State<'_>, plan: Plan) -> Option<copepod_client::ClientError> {
    let about = (&DAEMON_SETS, &state.set.metadata);
    let mut first = None;
    let steps = plan.delete.iter().map(|p| Step::delete(&PODS, &p.metadata)).collect();
    for (pod, result) in plan.delete.iter().zip(execute(context, steps).await) {
        let name = &pod.metadata.name;
        let (kind, reason, text) = match result {
            Ok(_) if &*pod.status.phase == "Succeeded" => (
                EventKind::Normal,
                "SucceededDaemonPod",
                format!(
                    "Found succeeded daemon pod {} on node {}, will try to delete it",
                    pod.metadata.key(),
                    pod.spec.node_name
                ),
            ),
            Ok(_) if &*pod.status.phase == "Failed" => (
                EventKind::Warning,
                "FailedDaemonPod",
                format!(
                    "Found failed daemon pod {} on node {}, will try to kill it",
                    pod.metadata.key(),
                    pod.spec.node_name
                ),
            ),
            Ok(_) => (EventKind::Normal, "SuccessfulDelete", format!("Deleted pod: {name}")),
            Err(error) => {
                let text = format!("Error deleting: {error}");
                first = first.or(Some(error));
                (EventKind::Warning, "FailedDelete", text)
            }
        };
        event(context, about, kind, reason, text);
    }
    let steps = plan.create.iter().map(|node| create(state, node)).collect();
    let results = execute_slow_start(context, steps).await;
    let refused = report_creations(context, about, results);
    first.or(refused)
}

/// A pod for one node: bound to it by affinity, so that the scheduler checks that there is room.
fn create(state: &State<'_>, node: &str) -> Step {
    let meta = &state.set.metadata;
    let owner = controller_reference(&DAEMON_SETS, meta);
    let mut pod = pod_from(&state.template, &meta.namespace, &meta.name, &owner);
    let metadata = copepod_api::meta::metadata_mut(&mut pod);
    let labels = copepod_api::meta::child_mut(metadata, "labels");
    labels.insert(HASH.to_owned(), json!(state.hash));
    if let Some(generation) = meta.annotation("deprecated.daemonset.template.generation") {
        labels.insert(GENERATION.to_owned(), json!(generation));
    }
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        let affinity = copepod_api::meta::child_mut(spec, "affinity");
        let node_affinity = copepod_api::meta::child_mut(affinity, "nodeAffinity");
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        node_affinity.insert(required.to_owned(), json!({"nodeSelectorTerms": [{"matchFields": [field]}]}));
        let own = spec.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
        let host = spec.get("hostNetwork") == Some(&Value::Bool(true));
        let borne = BORNE.iter().filter(|(_, _, only_host)| host || !only_host);
        let borne = borne.map(|(key, effect, _)| json!({"key": key, "operator": "Exists", "effect": effect}));
        let mut all = own;
        for toleration in borne {
            if !all.contains(&toleration) {
                all.push(toleration);
            }
        }
        spec.insert("tolerations".to_owned(), Value::Array(all));
    }
    Step::Create { resource: PODS, namespace: meta.namespace.clone(), body: pod }
}

fn plan_new_status(state: &State<'_>) -> DaemonSetStatus {
    let mut status = DaemonSetStatus {
        observed_generation: state.set.metadata.generation,
        collision_count: state.set.status.collision_count,
        conditions: state.set.status.conditions.clone(),
        ..DaemonSetStatus::default()
    };
    for node in &state.nodes {
        let pods = state.on(node);
        let pod = pods.iter().min_by_key(|p| p.metadata.creation_timestamp);
        if !wanted(state, node).0 {
            status.number_misscheduled += i64::from(pod.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = pod else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i64::from(pod.ready());
        status.number_available += i64::from(pod.available(state.set.spec.min_ready_seconds, state.now));
        status.updated_number_scheduled += i64::from(pod.metadata.label(HASH) == state.hash);
    }
    status.number_unavailable = status.desired_number_scheduled - status.number_available;
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, spec: Value) -> Arc<Node> {
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap())
    }

    fn pod(name: &str, node: &str, hash: &str, phase: &str, ready: bool) -> Arc<Pod> {
        let body = json!({
            "metadata": {"name": name, "uid": name, "labels": {HASH: hash}}, "spec": {"nodeName": node},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
        });
        Arc::new(serde_json::from_value(body).unwrap())
    }

    fn state<'a>(set: &'a DaemonSet, nodes: Vec<Arc<Node>>, pods: Vec<Arc<Pod>>) -> State<'a> {
        let template = json!({"spec": {}});
        let mut by_node: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in pods {
            by_node.entry(pod.spec.node_name.to_string()).or_default().push(pod);
        }
        let tolerations = tolerations(&template);
        let now = Timestamp::UNIX_EPOCH;
        let (hash, held) = ("new".to_owned(), BTreeSet::new());
        State { set, template, tolerations, nodes, pods: by_node, hash, held, now }
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
        pods.iter().map(|p| p.metadata.name.as_str()).collect()
    }

    #[test]
    fn nodes_get_a_pod_unless_a_taint_forbids_it() {
        let set = DaemonSet::default();
        let cordoned =
            json!({"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]});
        let tainted = json!({"taints": [{"key": "mine", "effect": "NoSchedule"}]});
        let evil = json!({"taints": [{"key": "evil", "effect": "NoExecute"}]});
        let nodes = vec![node("a", json!({})), node("b", cordoned), node("c", tainted), node("d", evil)];
        let pods = vec![
            pod("failed", "a", "new", "Failed", false),
            pod("stays", "c", "new", "Running", true),
            pod("goes", "d", "new", "Running", true),
        ];
        let state = state(&set, nodes, pods);
        let plan = plan(&state);
        assert_eq!(plan.create, ["b"], "a's failed pod goes first");
        assert_eq!(names(&plan.delete), ["failed", "goes"]);
        let status = plan_new_status(&state);
        assert_eq!((status.desired_number_scheduled, status.number_misscheduled), (2, 2));
    }

    #[test]
    fn updates_replace_what_is_dead_and_one_that_lives() {
        let set = DaemonSet::default();
        let nodes = || vec![node("a", json!({})), node("b", json!({})), node("c", json!({}))];
        let healthy = ["a", "b", "c"].map(|n| pod(n, n, "old", "Running", true));
        assert_eq!(names(&plan(&state(&set, nodes(), healthy.to_vec())).delete), ["a"]);
        let sick = vec![
            pod("a", "a", "old", "Running", true),
            pod("b", "b", "old", "Running", false),
            pod("c", "c", "new", "Running", true),
        ];
        assert_eq!(names(&plan(&state(&set, nodes(), sick)).delete), ["b"], "one is missing already");
    }

    #[test]
    fn a_surge_adds_first_and_takes_away_when_the_new_pod_serves() {
        let strategy =
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
        let set: DaemonSet =
            serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": {"updateStrategy": strategy}}))
                .unwrap();
        let nodes = || vec![node("a", json!({})), node("b", json!({}))];
        let old = ["a", "b"].map(|n| pod(n, n, "old", "Running", true));
        let first = plan(&state(&set, nodes(), old.to_vec()));
        assert_eq!((first.create, first.delete.len()), (vec!["a".to_owned()], 0));
        let with = |ready| [old.to_vec(), vec![pod("a2", "a", "new", "Running", ready)]].concat();
        let waiting = plan(&state(&set, nodes(), with(false)));
        assert!(waiting.create.is_empty() && waiting.delete.is_empty(), "{waiting:?}");
        assert_eq!(names(&plan(&state(&set, nodes(), with(true))).delete), ["a"]);
    }

    #[test]
    fn failures_slow_down() {
        let set = DaemonSet::default();
        let failed = || state(&set, vec![node("a", json!({}))], vec![pod("f", "a", "new", "Failed", false)]);
        let backoffs = Backoffs::default();
        let mut first = failed();
        assert_eq!(backoffs.hold(&mut first), None);
        assert_eq!(names(&plan(&first).delete), ["f"]);
        let mut second = failed();
        assert!(backoffs.hold(&mut second).is_some());
        assert!(plan(&second).delete.is_empty());
    }
}
