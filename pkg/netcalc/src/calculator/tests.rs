use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::rules::Route;

fn node() -> NodeFacts {
    NodeFacts { name: "n1".into(), zone: String::new(), addresses: vec!["192.168.0.1".parse().unwrap()] }
}

fn service(extra: Value) -> ServiceView {
    let mut object = json!({
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "type": "ClusterIP", "clusterIP": "10.96.0.5", "ports": [
            { "name": "http", "protocol": "TCP", "port": 80 }] },
    });
    merge(&mut object, extra);
    serde_json::from_value(object).unwrap()
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(a), Value::Object(b)) => {
            for (k, v) in b {
                merge(a.entry(k).or_insert(Value::Null), v);
            }
        }
        (a, b) => *a = b,
    }
}

fn slice(name: &str, ips: &[&str]) -> SliceView {
    let endpoints: Vec<_> = ips
        .iter()
        .map(|ip| json!({ "addresses": [ip], "conditions": { "ready": true }, "nodeName": "n1" }))
        .collect();
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "kubernetes.io/service-name": "web" } },
        "addressType": "IPv4",
        "ports": [{ "name": "http", "protocol": "TCP", "port": 8080 }],
        "endpoints": endpoints,
    }))
    .unwrap()
}

fn name() -> ServiceName {
    ServiceName::new("default", "web")
}

fn rules(view: ServiceView, slices: &[SliceView]) -> Vec<PortRules> {
    let mut calc = Calculator::new(node(), &[Family::V4]);
    calc.on_service(name(), Some(view));
    for slice in slices {
        calc.on_slice("default", &slice.metadata.name.clone(), Some(slice));
    }
    calc.take_changes().remove(0).ports
}

#[test]
fn a_plain_service_leads_to_its_endpoints() {
    let ports = rules(service(json!({})), &[slice("a", &["10.1.0.2", "10.1.0.1"])]);
    let [port] = ports.as_slice() else { panic!("one port") };
    assert_eq!(port.name.to_string(), "default/web:http");
    let targets: Vec<_> = port.cluster.iter().map(|b| b.address.to_string()).collect();
    assert_eq!(targets, ["10.1.0.1:8080", "10.1.0.2:8080"]);
    assert_eq!(port.internal, Route::Cluster);
}

#[test]
fn the_port_of_a_slice_is_matched_by_name() {
    let view = service(json!({ "spec": { "ports": [{ "name": "other", "port": 80 }] } }));
    assert_eq!(rules(view, &[slice("a", &["10.1.0.1"])])[0].internal, Route::Reject);
}

#[test]
fn headless_external_name_and_foreign_services_have_no_rules() {
    for extra in [
        json!({ "spec": { "clusterIP": "None" } }),
        json!({ "spec": { "type": "ExternalName" } }),
        json!({ "metadata": { "labels": { OTHER_PROXY: "x" } } }),
    ] {
        let mut calc = Calculator::new(node(), &[Family::V4]);
        calc.on_service(name(), Some(service(extra.clone())));
        assert!(calc.all().is_empty(), "{extra}");
    }
}

#[test]
fn load_balancer_fields_are_read() {
    let view = service(json!({
        "spec": { "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001,
            "loadBalancerSourceRanges": [" 192.168.0.0/16 ", "nonsense"], "sessionAffinity": "ClientIP",
            "ports": [{ "name": "http", "port": 80, "nodePort": 30080 }] },
        "status": { "loadBalancer": { "ingress": [
            { "ip": "198.51.100.1" }, { "ip": "198.51.100.2", "ipMode": "Proxy" }, { "hostname": "x" }] } },
    }));
    let port = rules(view, &[slice("a", &["10.1.0.1"])]).remove(0);
    assert_eq!(port.load_balancer_ips, ["198.51.100.1".parse::<IpAddr>().unwrap()]);
    assert_eq!(port.source_ranges.len(), 1);
    assert!(port.sources_include_node);
    assert_eq!(port.affinity, Some(10_800));
    assert_eq!(port.health_check, Some((30_001, 1)));
    assert_eq!((port.node_port, port.external), (30_080, Route::Local));
}

#[test]
fn an_unchanged_object_is_no_change_and_a_deleted_one_is_an_empty_one() {
    let mut calc = Calculator::new(node(), &[Family::V4]);
    calc.on_service(name(), Some(service(json!({}))));
    calc.on_slice("default", "a", Some(&slice("a", &["10.1.0.1"])));
    assert_eq!(calc.take_changes().len(), 1);
    calc.on_service(name(), Some(service(json!({}))));
    calc.on_slice("default", "a", Some(&slice("a", &["10.1.0.1"])));
    assert!(!calc.is_dirty());
    calc.on_service(name(), None);
    assert_eq!(calc.take_changes(), [Change { service: name(), ports: vec![] }]);
}

#[test]
fn an_address_in_two_slices_is_the_ready_one() {
    let mut ended = slice("a", &["10.1.0.1"]);
    ended.endpoints[0].conditions.ready = Some(false);
    ended.endpoints[0].conditions.serving = Some(false);
    let ready = slice("b", &["10.1.0.1"]);
    for order in [[&ended, &ready], [&ready, &ended]] {
        let ports = rules(service(json!({})), &[order[0].clone(), order[1].clone()]);
        assert_eq!(ports[0].cluster.len(), 1);
    }
}

proptest! {
    /// Whatever the order and however often objects come and go, the end state alone decides.
    #[test]
    fn the_order_of_events_does_not_matter(
        events in proptest::collection::vec((0_usize..4, 0_usize..5, any::<bool>()), 0..40)
    ) {
        let mut live = Calculator::new(node(), &[Family::V4]);
        let mut last: [Option<usize>; 4] = [None; 4];
        live.on_service(name(), Some(service(json!({}))));
        let ips = ["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"];
        for (which, size, delete) in events {
            let id = format!("s{which}");
            if delete {
                last[which] = None;
                live.on_slice("default", &id, None);
            } else {
                last[which] = Some(size);
                live.on_slice("default", &id, Some(&slice(&id, &ips[..size.min(4)])));
            }
            live.take_changes();
        }
        let mut fresh = Calculator::new(node(), &[Family::V4]);
        for (which, size) in last.iter().enumerate().rev() {
            if let Some(size) = size {
                let id = format!("s{which}");
                fresh.on_slice("default", &id, Some(&slice(&id, &ips[..(*size).min(4)])));
            }
        }
        fresh.on_service(name(), Some(service(json!({}))));
        prop_assert_eq!(live.all(), fresh.all());
    }
}
