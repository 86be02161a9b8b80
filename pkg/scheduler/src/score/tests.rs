//! Choices between nodes.

use serde_json::{Value, json};

use super::*;

fn node(name: &str, extra: Value) -> Arc<Node> {
    let mut body = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    });
    copepod_client::apply_merge(&mut body, &extra);
    Arc::new(serde_json::from_value(body).unwrap())
}

fn pod(name: &str, spec: Value) -> Pod {
    let metadata = json!({"name": name, "namespace": "ns", "uid": name, "labels": {"app": name}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn choose(pod: &Pod, nodes: &[Arc<Node>], placed: Vec<Pod>) -> String {
    let mut snapshot = Snapshot::default();
    nodes.iter().for_each(|node| snapshot.set_node(Arc::clone(node)));
    placed.into_iter().for_each(|pod| snapshot.set_pod(&Arc::new(pod)));
    best(pod, &snapshot, nodes).map(|node| node.name.to_string()).unwrap_or_default()
}

fn term(app: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"})
}

#[test]
fn pods_prefer_company_and_distance() {
    let nodes = [node("a", json!({})), node("b", json!({}))];
    let web = || vec![pod("web", json!({"nodeName": "b", "containers": [{"name": "c"}]}))];
    let preferred = |kind: &str| {
        let rule = json!([{"weight": 50, "podAffinityTerm": term("web")}]);
        json!({"containers": [{"name": "c"}], "affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": rule}}})
    };
    assert_eq!(choose(&pod("x", preferred("podAffinity")), &nodes, web()), "b");
    assert_eq!(choose(&pod("x", preferred("podAntiAffinity")), &nodes, web()), "a");
    let mut wishing = pod("lonely", preferred("podAffinity"));
    wishing.node_name = "b".into();
    assert_eq!(choose(&pod("web", json!({"containers": [{"name": "c"}]})), &nodes, vec![wishing]), "b");
}

#[test]
fn room_and_images_count() {
    let busy = pod(
        "busy",
        json!({"nodeName": "a", "containers": [{"name": "c", "resources": {"requests": {"cpu": "3", "memory": "6Gi"}}}]}),
    );
    let plain = json!({"containers": [{"name": "c", "image": "registry.example.com/app", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}}]});
    let nodes = [node("a", json!({})), node("b", json!({}))];
    assert_eq!(choose(&pod("x", plain.clone()), &nodes, vec![busy]), "b");
    let image = json!({"status": {"images": [{"names": ["registry.example.com/app:latest"], "sizeBytes": 900_000_000}]}});
    let nodes = [node("a", json!({})), node("b", image)];
    assert_eq!(choose(&pod("x", plain), &nodes, Vec::new()), "b");
}

#[test]
fn soft_constraints_spread() {
    let nodes = [node("a", json!({})), node("b", json!({}))];
    let spread = json!([{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}}}]);
    let web = pod("web", json!({"containers": [{"name": "c"}], "topologySpreadConstraints": spread}));
    let placed = pod("web", json!({"nodeName": "a", "containers": [{"name": "c"}]}));
    assert_eq!(choose(&web, &nodes, vec![placed]), "b");
}

#[test]
fn scales() {
    assert_eq!(scaled(&[1, 2, 4], Scale::Largest), [25, 50, 100]);
    assert_eq!(scaled(&[0, 2], Scale::Smallest), [100, 0]);
    assert_eq!(scaled(&[-3, 3, 0], Scale::Range), [0, 100, 50]);
    assert_eq!(scaled(&[0, 0], Scale::Emptiest), [100, 100]);
    assert_eq!(scaled(&[1, 3], Scale::Emptiest), [100, 33]);
}
