//! Nodes that fall silent: conditions become unknown, taints follow conditions, and pods that do not bear a NoExecute
//! taint are evicted when their time is up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use copepod_client::resources::{NODES, PODS};
use copepod_client::{DeleteOptions, EventKind, ObjectKey, Outcome, Patch, WorkQueue};
use copepod_sys::clock;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::context::{Context, SyncResult, enqueue};
use crate::step::{Step, event, execute_all};
use crate::views::{Condition, HasMeta, Node, Pod, Taint, condition};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const NODE_LEASES: &str = "kube-node-lease";
/// How often a node is looked at while nothing happens.
const LOOK: Duration = Duration::from_secs(5);

/// Conditions that forbid new pods, the status that does, and the taint that says so.
const CONDITION_TAINTS: [(&str, &str, &str); 4] = [
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];
/// Conditions the kubelet reports, which nobody knows once it is silent.
const KUBELET_CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// When each node was last heard of, by our own clock: clocks of nodes may be wrong.
type Heard = Arc<Mutex<BTreeMap<String, Instant>>>;

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    let heard: Heard = Arc::default();
    enqueue(&context.caches.nodes, &queue);
    let seen = Arc::clone(&heard);
    context.caches.leases.on_change(move |key, delta| {
        let renewed = delta.old().is_none_or(|old| old.spec.renew_time != delta.object().spec.renew_time);
        if key.namespace == NODE_LEASES && renewed {
            seen.lock().insert(key.name.clone(), Instant::now());
        }
    });
    let seen = Arc::clone(&heard);
    context.caches.nodes.on_change(move |key, delta| {
        // The kubelet's status writes count as heartbeats; ours set conditions to Unknown and do not.
        let beat = |node: &Node| {
            condition(&node.status.conditions, "Ready").filter(|c| c.status != "Unknown").cloned()
        };
        let new = beat(delta.object());
        if new.is_some() && delta.old().is_none_or(|old| beat(old) != new) {
            seen.lock().insert(key.name.clone(), Instant::now());
        }
    });
    let looked = Arc::clone(&heard);
    context.work(&queue, 1, move |context, key| {
        let heard = Arc::clone(&looked);
        async move { sync(&context, &key, &heard).await }
    });
    start_eviction(context);
}

async fn sync(context: &Context, key: &ObjectKey, heard: &Heard) -> SyncResult {
    let Some(node) = context.caches.nodes.get_key(key) else {
        heard.lock().remove(&key.name);
        return Ok(Outcome::Done);
    };
    let grace = context.config.node_monitor_grace_period;
    let silent = heard.lock().entry(key.name.clone()).or_insert_with(Instant::now).elapsed() > grace;
    let now = clock::now();
    let mut steps = Vec::new();
    let mut conditions = node.status.conditions.clone();
    if silent && let Some(step) = plan_unknown(&node, now, &mut conditions) {
        event(
            context,
            (&NODES, &node.metadata),
            EventKind::Normal,
            "NodeNotReady",
            format!("Node {} status is now: NodeNotReady", key.name),
        );
        steps.push(step);
    }
    let others = context.caches.nodes.list();
    let others = others.iter().filter(|other| other.metadata.name != node.metadata.name);
    let disrupted = !is_ready(&conditions) && others.clone().all(|node| !is_ready(&node.status.conditions));
    steps.extend(plan_taints(&node, &conditions, disrupted, now));
    if !is_ready(&conditions) {
        steps.extend(plan_unready_pods(context, &key.name, now));
    }
    execute_all(context, steps).await?;
    Ok(Outcome::After(LOOK))
}

fn is_ready(conditions: &[Condition]) -> bool {
    condition(conditions, "Ready").is_some_and(|c| c.status == "True")
}

/// Nobody knows the state of a silent node.
fn plan_unknown(node: &Node, now: Timestamp, conditions: &mut Vec<Condition>) -> Option<Step> {
    let mut changed = Vec::new();
    for kind in KUBELET_CONDITIONS {
        let old = condition(conditions, kind);
        if old.is_some_and(|c| c.status == "Unknown") {
            continue;
        }
        let (reason, text) = match old {
            Some(_) => ("NodeStatusUnknown", "Kubelet stopped posting node status."),
            None => ("NodeStatusNeverUpdated", "Kubelet never posted node status."),
        };
        let new = Condition { status: "Unknown".to_owned(), ..Condition::new(kind, true, reason, text) };
        crate::views::set_condition(conditions, new.clone(), now);
        changed.push(json!({
            "type": kind, "status": "Unknown", "reason": reason, "message": text, "lastTransitionTime": now,
        }));
    }
    (!changed.is_empty()).then(|| Step::Patch {
        resource: NODES,
        key: node.metadata.key(),
        subresource: "status",
        // Strategic, so that heartbeat times of the conditions stay.
        patch: Patch::Strategic(json!({"status": {"conditions": changed}})),
    })
}

/// The taints that conditions and cordoning ask for; others stay as they are. While no node at all is ready, the fault
/// may be on our side, and pods would have nowhere to go: nobody is evicted then (upstream's full disruption).
fn wanted_taints(node: &Node, conditions: &[Condition], disrupted: bool, now: Timestamp) -> Vec<Taint> {
    let taint = |key: &str, effect: &str, time_added: Option<Timestamp>| Taint {
        key: key.to_owned(),
        effect: effect.to_owned(),
        time_added,
        ..Taint::default()
    };
    let mut wanted = Vec::new();
    let ready = condition(conditions, "Ready").map_or("Unknown", |c| &c.status);
    let why = match ready {
        "True" => None,
        "False" => Some(NOT_READY),
        _ => Some(UNREACHABLE),
    };
    if let Some(key) = why {
        wanted.push(taint(key, "NoSchedule", None));
        if !disrupted {
            wanted.push(taint(key, "NoExecute", Some(now)));
        }
    }
    for (kind, status, key) in CONDITION_TAINTS {
        if condition(conditions, kind).is_some_and(|c| c.status == status) {
            wanted.push(taint(key, "NoSchedule", None));
        }
    }
    if node.spec.unschedulable {
        wanted.push(taint("node.kubernetes.io/unschedulable", "NoSchedule", None));
    }
    wanted
}

fn plan_taints(node: &Node, conditions: &[Condition], disrupted: bool, now: Timestamp) -> Option<Step> {
    let wanted = wanted_taints(node, conditions, disrupted, now);
    let ours = |taint: &Taint| {
        let known = CONDITION_TAINTS.iter().map(|(_, _, key)| *key);
        known.chain([NOT_READY, UNREACHABLE, "node.kubernetes.io/unschedulable"]).any(|key| key == taint.key)
    };
    let same = |a: &Taint, b: &Taint| a.key == b.key && a.effect == b.effect;
    let kept = |taint: &&Taint| !ours(taint) || wanted.iter().any(|w| same(w, taint));
    let mut taints: Vec<_> = node.spec.taints.iter().filter(kept).cloned().collect();
    for taint in wanted {
        if !taints.iter().any(|t| same(t, &taint)) {
            taints.push(taint);
        }
    }
    let value = if taints.is_empty() { Value::Null } else { json!(taints) };
    let body = json!({
        "metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": value},
    });
    (taints != node.spec.taints).then(|| Step::merge(&NODES, &node.metadata, body))
}

/// Pods of a node that is not ready are not ready either, whatever they last said.
fn plan_unready_pods(context: &Context, node: &str, now: Timestamp) -> Vec<Step> {
    let pods = context.caches.pods.by_index(context.caches.pods_by_node, node);
    let ready = pods.iter().filter(|p| p.ready());
    let patch = json!({"status": {"conditions": [{
        "type": "Ready", "status": "False", "reason": "NodeNotReady", "lastTransitionTime": now,
    }]}});
    ready
        .map(|pod| Step::Patch {
            resource: PODS,
            key: pod.metadata.key(),
            subresource: "status",
            patch: Patch::Strategic(patch.clone()),
        })
        .collect()
}

/// Pods on tainted nodes, each looked at when its time is up.
fn start_eviction(context: &Context) {
    let queue: WorkQueue<ObjectKey> = WorkQueue::new();
    enqueue(&context.caches.pods, &queue);
    let (owner, pods) = (context.clone(), queue.clone());
    context.caches.nodes.on_change(move |key, delta| {
        if delta.old().is_none_or(|old| old.spec.taints != delta.object().spec.taints) {
            for pod in owner.caches.pods.by_index(owner.caches.pods_by_node, &key.name) {
                pods.add(pod.metadata.key());
            }
        }
    });
    context.work(&queue, 2, evict);
}

async fn evict(context: Context, key: ObjectKey) -> SyncResult {
    let Some(pod) = context.caches.pods.get_key(&key).filter(|p| p.active()) else {
        return Ok(Outcome::Done);
    };
    let node = context.caches.nodes.get("", &pod.spec.node_name);
    let Some(due) = node.and_then(|node| plan_eviction(&pod, &node.spec.taints)) else {
        return Ok(Outcome::Done);
    };
    let wait = due.duration_since(clock::now());
    if wait > SignedDuration::ZERO {
        return Ok(Outcome::After(wait.unsigned_abs()));
    }
    let text = format!("Marking for deletion Pod {key}");
    event(&context, (&PODS, pod.meta()), EventKind::Normal, "TaintManagerEviction", text);
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": clock::now(),
    });
    let mark = Step::Patch {
        resource: PODS,
        key: key.clone(),
        subresource: "status",
        patch: Patch::Strategic(json!({"status": {"conditions": [condition]}})),
    };
    execute_all(&context, vec![mark]).await?;
    let options = DeleteOptions::uid(&pod.metadata.uid);
    let delete = Step::Delete { resource: PODS, key, uid: pod.metadata.uid.clone(), options };
    execute_all(&context, vec![delete]).await.map(|()| Outcome::Done)
}

/// When the pod has to go: at once if it does not bear one of the taints, else when the shortest of the tolerations in
/// use has passed since the taints came.
fn plan_eviction(pod: &Pod, taints: &[Taint]) -> Option<Timestamp> {
    let mut due: Option<Timestamp> = None;
    for taint in taints.iter().filter(|t| t.effect == "NoExecute") {
        let added = taint.time_added.unwrap_or(Timestamp::UNIX_EPOCH);
        let bearing = pod.spec.tolerations.iter().filter(|t| t.bears(taint));
        let until = match bearing.map(|t| t.toleration_seconds).min_by_key(|s| s.unwrap_or(i64::MAX)) {
            None => Timestamp::UNIX_EPOCH,
            Some(None) => continue,
            Some(Some(seconds)) => added + SignedDuration::from_secs(seconds.max(0)),
        };
        due = Some(due.map_or(until, |d| d.min(until)));
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(ready: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "n"},
            "spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]},
            "status": {"conditions": [
                {"type": "Ready", "status": ready}, {"type": "DiskPressure", "status": "True"},
            ]},
        }))
        .unwrap()
    }

    #[test]
    fn taints_follow_conditions_and_leave_others_alone() {
        let now = Timestamp::UNIX_EPOCH;
        let planned = |node: &Node, disrupted: bool| -> Vec<String> {
            let Some(Step::Patch { patch: Patch::Merge(body), .. }) =
                plan_taints(node, &node.status.conditions, disrupted, now)
            else {
                return Vec::new();
            };
            let taints: Vec<Taint> = serde_json::from_value(body["spec"]["taints"].clone()).unwrap();
            taints.iter().map(|t| format!("{}:{}", t.key, t.effect)).collect()
        };
        let keys = |node: &Node| planned(node, false);
        let pressure = "node.kubernetes.io/disk-pressure:NoSchedule";
        assert_eq!(keys(&node("True")), ["mine:NoSchedule", pressure]);
        let unready = [
            "mine:NoSchedule",
            "node.kubernetes.io/not-ready:NoSchedule",
            "node.kubernetes.io/not-ready:NoExecute",
            pressure,
        ];
        assert_eq!(keys(&node("False")), unready);
        assert!(keys(&node("Unknown"))[1].contains("unreachable"));
        let unready = ["mine:NoSchedule", "node.kubernetes.io/not-ready:NoSchedule", pressure];
        assert_eq!(planned(&node("False"), true), unready, "nobody goes while no node is ready");
    }

    #[test]
    fn silence_makes_conditions_unknown_once() {
        let mut node = node("True");
        let mut conditions = node.status.conditions.clone();
        let step = plan_unknown(&node, Timestamp::UNIX_EPOCH, &mut conditions);
        assert!(format!("{step:?}").contains("Kubelet never posted node status."), "of those it never told");
        node.status.conditions.clone_from(&conditions);
        assert_eq!(plan_unknown(&node, Timestamp::UNIX_EPOCH, &mut conditions), None);
    }

    #[test]
    fn the_shortest_toleration_decides() {
        let taint = Taint {
            key: UNREACHABLE.to_owned(),
            effect: "NoExecute".to_owned(),
            time_added: Some(Timestamp::UNIX_EPOCH),
            ..Taint::default()
        };
        let due = |tolerations: Value| {
            let pod: Pod =
                serde_json::from_value(json!({"metadata": {}, "spec": {"tolerations": tolerations}}))
                    .unwrap();
            plan_eviction(&pod, std::slice::from_ref(&taint)).map(Timestamp::as_second)
        };
        assert_eq!(due(json!([])), Some(0));
        let bear = |seconds: Option<i64>| json!({"key": UNREACHABLE, "operator": "Exists", "tolerationSeconds": seconds});
        assert_eq!(due(json!([bear(None)])), None);
        assert_eq!(due(json!([bear(Some(300)), bear(None), bear(Some(60))])), Some(60));
    }
}
