//! Rendered rule sets, compared with files. `UPDATE_GOLDEN=1` writes them.

use std::path::Path;

use copepod_dataplane::{iptables, nftables};
use copepod_netcalc::{Calculator, Family, NodeFacts, PortRules, ServiceName, ServiceView, SliceView};
use serde_json::{Value, json};

use crate::net::settings;

fn ports(objects: &[(Value, Value)]) -> Vec<PortRules> {
    let facts = NodeFacts {
        name: "n1".into(),
        zone: String::new(),
        addresses: vec!["192.168.66.1".parse().expect("ip")],
    };
    let mut calc = Calculator::new(facts, &[Family::V4]);
    for (service, slice) in objects {
        let service: ServiceView = serde_json::from_value(service.clone()).expect("a service");
        let slice: SliceView = serde_json::from_value(slice.clone()).expect("a slice");
        let (namespace, name) = (service.metadata.namespace.clone(), service.metadata.name.clone());
        calc.on_service(ServiceName::new(&namespace, &name), Some(service));
        calc.on_slice(&namespace, &name, Some(&slice));
    }
    calc.all().into_iter().flat_map(|c| c.ports).collect()
}

fn slice(service: &str, port: u16, endpoints: &[(&str, bool)]) -> Value {
    let endpoints: Vec<_> = endpoints
        .iter()
        .map(|(ip, local)| json!({ "addresses": [ip], "nodeName": if *local { "n1" } else { "n2" } }))
        .collect();
    json!({ "metadata": { "labels": { "kubernetes.io/service-name": service } }, "addressType": "IPv4",
        "ports": [{ "name": "p80", "protocol": "TCP", "port": port }], "endpoints": endpoints })
}

fn service(name: &str, ip: &str, spec: Value, status: Value) -> Value {
    let mut object = json!({ "metadata": { "name": name, "namespace": "ns1" },
        "spec": { "type": "ClusterIP", "clusterIP": ip,
            "ports": [{ "name": "p80", "protocol": "TCP", "port": 80 }] }, "status": status });
    if let (Some(into), Value::Object(from)) = (object["spec"].as_object_mut(), spec) {
        into.extend(from);
    }
    object
}

fn sample() -> Vec<PortRules> {
    let node_port = json!([{ "name": "p80", "protocol": "TCP", "port": 80, "nodePort": 30080 }]);
    ports(&[
        (
            service("svc1", "172.30.0.41", json!({}), json!({})),
            slice("svc1", 80, &[("10.180.0.1", false), ("10.180.0.2", true), ("10.180.0.3", false)]),
        ),
        (service("svc2", "172.30.0.42", json!({}), json!({})), slice("svc2", 80, &[])),
        (
            service(
                "svc3",
                "172.30.0.43",
                json!({ "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001,
                    "loadBalancerSourceRanges": ["203.0.113.0/24"], "ports": node_port }),
                json!({ "loadBalancer": { "ingress": [{ "ip": "1.2.3.4" }] } }),
            ),
            slice("svc3", 8080, &[("10.180.0.4", true), ("10.180.0.5", false)]),
        ),
        (
            service(
                "svc4",
                "172.30.0.44",
                json!({ "sessionAffinity": "ClientIP", "externalIPs": ["192.168.99.22"] }),
                json!({}),
            ),
            slice("svc4", 80, &[("10.180.0.6", true), ("10.180.0.7", false)]),
        ),
    ])
}

fn compare(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/dataplane").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text).expect("the golden file is written");
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (have, want)) in text.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(have, want, "{name} line {}", number + 1);
    }
    assert_eq!(text.lines().count(), wanted.lines().count(), "{name}");
}

#[test]
fn nftables_rules() {
    compare("nftables.txt", &nftables::describe(&sample(), &settings()));
}

#[test]
fn iptables_rules() {
    compare("iptables.txt", &iptables::describe(&sample(), &settings()));
}
