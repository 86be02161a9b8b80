//! Services, endpoints, ingresses, network policies and service addresses.

use std::collections::BTreeSet;

use copepod_api::meta;
use serde_json::Value;

use super::cells::{age, annotated, int, joined, labels, list, more, selector, text, text_or};
use super::rows::Printer;

/// Services.
pub(super) static SERVICES: Printer =
    Printer::new("Name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector*", |cx, object| {
        vec![
            meta::name(object).into(),
            text(object, "/spec/type").into(),
            text_or(object, "/spec/clusterIPs/0", "<none>").into(),
            external_ip(object).into(),
            ports(object).into(),
            age(cx.now, object),
            labels(object.pointer("/spec/selector")),
        ]
    });

/// The addresses or names of a load balancer's ingress points, sorted.
fn ingress_points(object: &Value) -> Vec<String> {
    let points: BTreeSet<&str> = list(object, "/status/loadBalancer/ingress")
        .iter()
        .map(|point| text_or(point, "/ip", text(point, "/hostname")))
        .filter(|point| !point.is_empty())
        .collect();
    points.into_iter().map(str::to_owned).collect()
}

fn external_ip(service: &Value) -> String {
    let external = joined(service, "/spec/externalIPs", ",");
    let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
    match text(service, "/spec/type") {
        "ClusterIP" | "NodePort" => or(external, "<none>"),
        "LoadBalancer" => {
            let mut all = ingress_points(service);
            if !external.is_empty() {
                all.push(external);
            }
            or(all.join(","), "<pending>")
        }
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn ports(service: &Value) -> String {
    let ports = list(service, "/spec/ports").iter().map(|port| {
        let (number, protocol, node) = (int(port, "/port"), text(port, "/protocol"), int(port, "/nodePort"));
        if node > 0 { format!("{number}:{node}/{protocol}") } else { format!("{number}/{protocol}") }
    });
    let all: Vec<String> = ports.collect();
    if all.is_empty() { "<none>".to_owned() } else { all.join(",") }
}

/// Endpoints.
pub(super) static ENDPOINTS: Printer = Printer::new("Name|Endpoints|Age", |cx, object| {
    vec![meta::name(object).into(), endpoints(object).into(), age(cx.now, object)]
});

fn endpoints(object: &Value) -> String {
    let subsets = list(object, "/subsets");
    if subsets.is_empty() {
        return "<none>".to_owned();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let addresses = || list(subset, "/addresses").iter().map(|a| text(a, "/ip"));
        let ports = list(subset, "/ports");
        if ports.is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let port = int(port, "/port");
            all.extend(addresses().map(|ip| host_port(ip, port)));
        }
    }
    if all.is_empty() { String::new() } else { more(&all, 3) }
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

/// Endpoint slices.
pub(super) static SLICES: Printer = Printer::new("Name|AddressType|Ports|Endpoints|Age", |cx, object| {
    let ports: Vec<String> = list(object, "/ports")
        .iter()
        .map(|port| {
            match (port.get("port").and_then(Value::as_i64), port.get("name").and_then(Value::as_str)) {
                (Some(number), _) => number.to_string(),
                (None, Some(name)) => name.to_owned(),
                (None, None) => "*".to_owned(),
            }
        })
        .collect();
    let addresses: Vec<String> = list(object, "/endpoints")
        .iter()
        .flat_map(|endpoint| list(endpoint, "/addresses"))
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    vec![
        meta::name(object).into(),
        text(object, "/addressType").into(),
        more(&ports, 3).into(),
        more(&addresses, 3).into(),
        age(cx.now, object),
    ]
});

/// Ingresses.
pub(super) static INGRESSES: Printer = Printer::new("Name|Class|Hosts|Address|Ports|Age", |cx, object| {
    let ports = if list(object, "/spec/tls").is_empty() { "80" } else { "80, 443" };
    vec![
        meta::name(object).into(),
        text_or(object, "/spec/ingressClassName", "<none>").into(),
        hosts(object).into(),
        ingress_points(object).join(",").into(),
        ports.into(),
        age(cx.now, object),
    ]
});

fn hosts(ingress: &Value) -> String {
    let rules = list(ingress, "/spec/rules");
    let (mut shown, mut cut) = (Vec::new(), false);
    for rule in rules {
        cut |= shown.len() == 3;
        if !cut && !text(rule, "/host").is_empty() {
            shown.push(text(rule, "/host"));
        }
    }
    match (shown.is_empty(), cut) {
        (true, _) => "*".to_owned(),
        (false, true) => format!("{} + {} more...", shown.join(","), rules.len() - 3),
        (false, false) => shown.join(","),
    }
}

/// Ingress classes.
pub(super) static INGRESS_CLASSES: Printer = Printer::new("Name|Controller|Parameters|Age", |cx, object| {
    let default = annotated(object, "ingressclass.kubernetes.io/is-default-class");
    let name = format!("{}{}", meta::name(object), if default { " (default)" } else { "" });
    let parameters = object.pointer("/spec/parameters").map_or_else(
        || "<none>".to_owned(),
        |p| {
            let group =
                p.get("apiGroup").and_then(Value::as_str).map(|g| format!(".{g}")).unwrap_or_default();
            format!("{}{group}/{}", text(p, "/kind"), text(p, "/name"))
        },
    );
    vec![name.into(), text(object, "/spec/controller").into(), parameters.into(), age(cx.now, object)]
});

/// Network policies.
pub(super) static POLICIES: Printer = Printer::new("Name|Pod-Selector|Age", |cx, object| {
    vec![meta::name(object).into(), selector(object.pointer("/spec/podSelector")).into(), age(cx.now, object)]
});

/// Ranges of service addresses.
pub(super) static CIDRS: Printer = Printer::new("Name|CIDRs|Age", |cx, object| {
    vec![meta::name(object).into(), joined(object, "/spec/cidrs", ",").into(), age(cx.now, object)]
});

/// Addresses in use. Upstream's rows have an age without a column.
pub(super) static ADDRESSES: Printer = Printer::new("Name|ParentRef", |cx, object| {
    let parent = object.pointer("/spec/parentRef").map_or_else(
        || "<none>".to_owned(),
        |p| {
            let mut parent = text(p, "/resource").to_owned();
            for (separator, part) in [(".", text(p, "/group")), ("/", text(p, "/namespace"))] {
                if !part.is_empty() {
                    parent = format!("{parent}{separator}{part}");
                }
            }
            format!("{parent}/{}", text(p, "/name"))
        },
    );
    vec![meta::name(object).into(), parent.into(), age(cx.now, object)]
});
