use serde_json::{Value, json};

use super::*;
use crate::preempt::plan_preemption;

fn node(name: &str, extra: Value) -> Arc<Node> {
    let mut body = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110", "example.com/dongle": "3"}},
    });
    body["spec"] = extra;
    Arc::new(serde_json::from_value(body).unwrap())
}

fn pod(name: &str, spec: Value) -> Arc<Pod> {
    let labels = spec.get("labels").cloned().unwrap_or_else(|| json!({}));
    let metadata = json!({"name": name, "namespace": "ns", "uid": name, "labels": labels});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
}

fn cpu(amount: &str) -> Value {
    json!([{"resources": {"requests": {"cpu": amount}}}])
}

fn cluster(nodes: &[Arc<Node>], pods: &[Arc<Pod>]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    nodes.iter().for_each(|n| snapshot.set_node(Arc::clone(n)));
    pods.iter().for_each(|p| snapshot.set_pod(p));
    snapshot
}

fn reason(snapshot: &Snapshot, pod: &Pod) -> String {
    let answer = feasible(pod, snapshot, &[]);
    if answer.fits.is_empty() {
        summary(&answer.refused, answer.refused.len(), "")
    } else {
        "fits".to_owned()
    }
}

#[test]
fn each_check_refuses_in_upstreams_words() {
    let plain = cluster(&[node("n", json!({}))], &[]);
    let cordoned = cluster(&[node("n", json!({"unschedulable": true}))], &[]);
    let taint = json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]});
    let tainted = cluster(&[node("n", taint)], &[]);
    let table: &[(&Snapshot, Value, &str)] = &[
        (&plain, json!({"containers": cpu("2")}), "fits"),
        (&plain, json!({"containers": cpu("2001m")}), "0/1 nodes are available: 1 Insufficient cpu."),
        (
            &plain,
            json!({"containers": [{"resources": {"requests": {"cpu": "3", "memory": "5Gi"}}}]}),
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.",
        ),
        (
            &plain,
            json!({"containers": [{"resources": {"requests": {"example.com/dongle": "4"}}}]}),
            "0/1 nodes are available: 1 Insufficient example.com/dongle.",
        ),
        (
            &plain,
            json!({"nodeSelector": {"a": "b"}}),
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
        ),
        (&cordoned, json!({}), "0/1 nodes are available: 1 node(s) were unschedulable."),
        (
            &cordoned,
            json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}),
            "fits",
        ),
        (&tainted, json!({}), "0/1 nodes are available: 1 node(s) had untolerated taint(s)."),
        (&tainted, json!({"tolerations": [{"key": "k", "value": "v"}]}), "fits"),
        (&tainted, json!({"tolerations": [{"operator": "Exists"}]}), "fits"),
        (
            &tainted,
            json!({"tolerations": [{"key": "k", "value": "w"}]}),
            "0/1 nodes are available: 1 node(s) had untolerated taint(s).",
        ),
    ];
    for (snapshot, spec, expected) in table {
        assert_eq!(reason(snapshot, &pod("p", spec.clone())), *expected, "{spec}");
    }
}

#[test]
fn host_ports_conflict_by_address_and_protocol() {
    let port = |ip: &str, protocol: &str| json!({"nodeName": "n", "containers": [{"ports": [{"hostPort": 80, "hostIP": ip, "protocol": protocol}]}]});
    let snapshot = cluster(&[node("n", json!({}))], &[pod("a", port("127.0.0.1", "TCP"))]);
    let taken = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
    assert_eq!(reason(&snapshot, &pod("p", port("", "TCP"))), taken);
    assert_eq!(reason(&snapshot, &pod("p", port("127.0.0.1", "TCP"))), taken);
    assert_eq!(reason(&snapshot, &pod("p", port("127.0.0.2", "TCP"))), "fits");
    assert_eq!(reason(&snapshot, &pod("p", port("127.0.0.1", "UDP"))), "fits");
}

#[test]
fn pods_attract_and_repel_each_other() {
    let term = |label: &str| json!([{"labelSelector": {"matchLabels": {"app": label}}, "topologyKey": "kubernetes.io/hostname"}]);
    let rule = |kind: &str, label: &str| json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": term(label)}});
    let lonely =
        json!({"labels": {"app": "x"}, "nodeName": "n1", "affinity": rule("podAntiAffinity", "web")});
    let web = json!({"labels": {"app": "web"}, "nodeName": "n2"});
    let nodes = [node("n1", json!({})), node("n2", json!({}))];
    let snapshot = cluster(&nodes, &[pod("lonely", lonely), pod("web", web)]);
    let placed = |spec: Value| {
        let answer = feasible(&pod("p", spec), &snapshot, &[]);
        answer.fits.iter().map(|n| n.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(placed(json!({"labels": {"app": "web"}})), ["n2"], "n1 keeps web away");
    assert_eq!(placed(json!({"affinity": rule("podAffinity", "web")})), ["n2"]);
    assert_eq!(placed(json!({"affinity": rule("podAntiAffinity", "web")})), ["n1"]);
    let none: [String; 0] = [];
    assert_eq!(placed(json!({"affinity": rule("podAffinity", "nobody")})), none);
    let first = json!({"labels": {"app": "new"}, "affinity": rule("podAffinity", "new")});
    assert_eq!(placed(first).len(), 2, "the first of a group may go anywhere");
}

#[test]
fn spread_keeps_the_skew() {
    let nodes = [node("n1", json!({})), node("n2", json!({}))];
    let placed = [pod("a", json!({"labels": {"app": "w"}, "nodeName": "n1"}))];
    let snapshot = cluster(&nodes, &placed);
    let constraint = json!({
        "labels": {"app": "w"},
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "w"}},
        }],
    });
    let answer = feasible(&pod("p", constraint), &snapshot, &[]);
    assert_eq!(answer.fits.iter().map(|n| &*n.name).collect::<Vec<_>>(), ["n2"]);
    let text = summary(&answer.refused, 2, "");
    assert!(text.contains("1 node(s) didn't match pod topology spread constraints"), "{text}");
}

#[test]
fn preemption_takes_the_least_important_and_no_more_than_needed() {
    let with = |name: &str, amount: &str, priority: i32| {
        pod(name, json!({"nodeName": "n", "priority": priority, "containers": cpu(amount)}))
    };
    let placed = [with("a", "1", 1), with("b", "500m", 2), with("c", "500m", 3)];
    let snapshot = cluster(&[node("n", json!({}))], &placed);
    let wants = |amount: &str, priority: i32| {
        let pod = pod("p", json!({"priority": priority, "containers": cpu(amount)}));
        let refused = feasible(&pod, &snapshot, &[]).refused;
        plan_preemption(&pod, &snapshot, &refused, &[])
            .map(|c| c.victims.iter().map(|v| v.key.name.clone()).collect::<Vec<_>>())
            .map_err(|why| summary(&why, 1, ""))
    };
    assert_eq!(wants("1", 9), Ok(vec!["a".to_owned()]));
    assert_eq!(wants("1500m", 9), Ok(vec!["b".to_owned(), "a".to_owned()]));
    let none = "0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    assert_eq!(wants("1", 1), Err(none.to_owned()));
    let hopeless = "0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    assert_eq!(wants("3", 9), Err(hopeless.to_owned()));
    assert_eq!(wants("2", 3), Err(hopeless.to_owned()), "c is as important");
}
