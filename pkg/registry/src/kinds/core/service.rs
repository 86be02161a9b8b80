//! Services: defaults and what follows from a change of type. Addresses and ports are allocated by the store.

mod validate;

pub(crate) use validate::asked;
mod warnings;

use serde_json::{Value, json};

use crate::hooks::HookContext;
use crate::kinds::at::same;
use crate::kinds::defaults::{
    Lit::S,
    Object,
    Rule::{In, Run, Zero},
    absent, fill, is_zero, map_mut, text,
};
use crate::kinds::kind::Kind;

/// Services.
pub(crate) static KIND: Kind = Kind {
    defaults: &[
        In(
            &["spec"],
            &[
                Zero("sessionAffinity", S("None")),
                Run(session_affinity),
                Zero("type", S("ClusterIP")),
                Run(ports),
                Run(policies),
            ],
        ),
        Run(balancer),
        Run(ingress_mode),
    ],
    reset_status: true,
    create_on_update: true,
    prepare_create: |_, new| {
        if let Some(service) = new.as_object_mut() {
            balancer(service);
        }
        if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) {
            normalize_cluster_ips(spec, None);
        }
    },
    prepare_update,
    warnings: warnings::warnings,
    validate: validate::create,
    validate_update: Some(validate::update),
    validate_status: validate::status,
    name: copepod_api::names::dns1123_label,
    ..Kind::PLAIN
};

fn session_affinity(spec: &mut Object) {
    match text(spec, "sessionAffinity") {
        "None" => drop(spec.remove("sessionAffinityConfig")),
        "ClientIP" => {
            let given = spec.get("sessionAffinityConfig").and_then(|c| c.pointer("/clientIP/timeoutSeconds"));
            if given.is_none_or(Value::is_null) {
                spec.insert(
                    "sessionAffinityConfig".to_owned(),
                    json!({"clientIP": {"timeoutSeconds": 10800}}),
                );
            }
        }
        _ => {}
    }
}

fn ports(spec: &mut Object) {
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(port) = port.as_object_mut() else { continue };
        if text(port, "protocol").is_empty() {
            port.insert("protocol".to_owned(), "TCP".into());
        }
        if port.get("targetPort").is_none_or(is_zero)
            && let Some(number) = port.get("port").cloned()
        {
            port.insert("targetPort".to_owned(), number);
        }
    }
}

fn policies(spec: &mut Object) {
    let kind = text(spec, "type").to_owned();
    let external = spec.get("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    let reachable = matches!(kind.as_str(), "LoadBalancer" | "NodePort") || (kind == "ClusterIP" && external);
    if reachable && text(spec, "externalTrafficPolicy").is_empty() {
        spec.insert("externalTrafficPolicy".to_owned(), "Cluster".into());
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "ExternalName" {
        spec.remove("internalTrafficPolicy");
    }
    if kind == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", true);
    }
}

fn ingress_mode(service: &mut Object) {
    if service.get("spec").and_then(|s| s.get("type")).and_then(Value::as_str) != Some("LoadBalancer") {
        return;
    }
    let ingress = service.get_mut("status").and_then(|s| s.pointer_mut("/loadBalancer/ingress"));
    for entry in ingress.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(entry) = entry.as_object_mut()
            && !text(entry, "ip").is_empty()
        {
            fill(entry, "ipMode", "VIP");
        }
    }
}

/// A status names its load balancer, be it there or not: clients look below it.
pub(crate) fn balancer(object: &mut Object) {
    fill(map_mut(object, "status"), "loadBalancer", json!({}));
}

fn prepare_update(_cx: &HookContext<'_>, new: &mut Value, old: &Value) {
    let Some(old) = old.get("spec").and_then(Value::as_object) else { return };
    let Some(new) = new.get_mut("spec").and_then(Value::as_object_mut) else { return };
    keep_allocated(new, old);
    normalize_cluster_ips(new, Some(old));
    drop_by_type(new, old);
}

fn needs_cluster_ip(spec: &Object) -> bool {
    text(spec, "type") != "ExternalName"
}

fn needs_node_port(spec: &Object) -> bool {
    matches!(text(spec, "type"), "NodePort" | "LoadBalancer")
}

fn needs_health_port(spec: &Object) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

fn node_ports(spec: &Object) -> Vec<i64> {
    let ports = spec.get("ports").and_then(Value::as_array).into_iter().flatten();
    ports.filter_map(|p| p.get("nodePort")?.as_i64()).filter(|n| *n != 0).collect()
}

/// What was allocated before and is not named in the update stays.
fn keep_allocated(new: &mut Object, old: &Object) {
    if needs_cluster_ip(old) && needs_cluster_ip(new) {
        for field in ["clusterIP", "clusterIPs"] {
            if new.get(field).is_none_or(is_zero)
                && let Some(kept) = old.get(field).filter(|v| !is_zero(v))
            {
                new.insert(field.to_owned(), kept.clone());
            }
        }
    }
    if needs_node_port(old) && needs_node_port(new) {
        keep_node_ports(new, old);
    }
    if needs_health_port(old)
        && needs_health_port(new)
        && new.get("healthCheckNodePort").is_none_or(is_zero)
        && let Some(kept) = old.get("healthCheckNodePort")
    {
        new.insert("healthCheckNodePort".to_owned(), kept.clone());
    }
}

/// A port without a node port takes the one its name had, unless the update uses that elsewhere.
fn keep_node_ports(new: &mut Object, old: &Object) {
    let before = node_ports(old);
    let mut used: Vec<i64> = node_ports(new).into_iter().filter(|n| before.contains(n)).collect();
    let old_ports = old.get("ports").and_then(Value::as_array).cloned().unwrap_or_default();
    for port in new.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(port) = port.as_object_mut() else { continue };
        if !port.get("nodePort").is_none_or(is_zero) {
            continue;
        }
        let name = text(port, "name");
        let same_name = |p: &&Value| p.get("name").and_then(Value::as_str).unwrap_or_default() == name;
        let kept = old_ports.iter().rfind(same_name).and_then(|p| p.get("nodePort")?.as_i64());
        if let Some(number) = kept.filter(|n| *n != 0 && !used.contains(n)) {
            port.insert("nodePort".to_owned(), number.into());
            used.push(number);
        }
    }
}

/// Keeps `clusterIP` and `clusterIPs` in step; what an older client changes in the first counts for both.
fn normalize_cluster_ips(new: &mut Object, old: Option<&Object>) {
    let list = |spec: &Object| spec.get("clusterIPs").and_then(Value::as_array).cloned().unwrap_or_default();
    let ip = text(new, "clusterIP").to_owned();
    let Some(old) = old else {
        if !ip.is_empty() && list(new).is_empty() {
            new.insert("clusterIPs".to_owned(), json!([ip]));
        }
        return;
    };
    let (was, was_list) = (text(old, "clusterIP"), list(old));
    if !was_list.is_empty() && list(new).is_empty() && was == ip {
        new.insert("clusterIPs".to_owned(), was_list.clone().into());
    }
    if was == ip {
        return;
    }
    let unchanged = list(new) == was_list;
    if !was.is_empty() && ip.is_empty() {
        if unchanged {
            new.remove("clusterIPs");
        }
    } else if was.is_empty() && !ip.is_empty() {
        if list(new).is_empty() {
            new.insert("clusterIPs".to_owned(), json!([ip]));
        }
    } else if unchanged {
        new.insert("clusterIPs".to_owned(), json!([ip]));
    }
}

/// A change of type drops what only the old type had, where the update merely repeats it.
fn drop_by_type(new: &mut Object, old: &Object) {
    let repeats = |new: &Object, field: &str| same(new.get(field), old.get(field));
    if needs_cluster_ip(old) && !needs_cluster_ip(new) {
        if repeats(new, "clusterIP") && repeats(new, "clusterIPs") {
            new.remove("clusterIP");
            new.remove("clusterIPs");
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if repeats(new, field) {
                new.remove(field);
            }
        }
    }
    if needs_node_port(old) && !needs_node_port(new) {
        let before = node_ports(old);
        if node_ports(new).iter().all(|n| before.contains(n)) {
            for port in new.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                port.as_object_mut().map(|p| p.remove("nodePort"));
            }
        }
    }
    if needs_health_port(old) && !needs_health_port(new) && repeats(new, "healthCheckNodePort") {
        new.remove("healthCheckNodePort");
    }
    if text(old, "type") == "LoadBalancer" && text(new, "type") != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if repeats(new, field) {
                new.remove(field);
            }
        }
    }
    if reachable(old) && !reachable(new) && repeats(new, "externalTrafficPolicy") {
        new.remove("externalTrafficPolicy");
    }
}

fn reachable(spec: &Object) -> bool {
    needs_node_port(spec) || (text(spec, "type") == "ClusterIP" && !absent(spec, "externalIPs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cx() -> HookContext<'static> {
        HookContext { user: crate::kinds::anyone(), subresource: None, now: jiff::Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn defaults_follow_the_type() {
        let mut service = json!({"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP",
            "ports": [{"port": 80}]}});
        crate::kinds::defaults::apply(KIND.defaults, service.as_object_mut().unwrap());
        assert_eq!(
            service["spec"],
            json!({"type": "LoadBalancer", "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
                "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster",
                "allocateLoadBalancerNodePorts": true})
        );
    }

    #[test]
    fn updates_keep_what_was_allocated() {
        let old = json!({"spec": {"type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
            "ports": [{"name": "a", "port": 80, "nodePort": 30001}]}});
        let mut new = json!({"spec": {"type": "NodePort", "ports": [{"name": "a", "port": 81}]}});
        prepare_update(&cx(), &mut new, &old);
        assert_eq!(new["spec"]["clusterIPs"], json!(["10.0.0.1"]));
        assert_eq!(new["spec"]["ports"][0]["nodePort"], 30001);
    }

    #[test]
    fn an_external_name_gives_up_its_address() {
        let old = json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}});
        let mut new = old.clone();
        new["spec"]["type"] = "ExternalName".into();
        prepare_update(&cx(), &mut new, &old);
        assert_eq!(new["spec"], json!({"type": "ExternalName"}));
    }
}
