//! What is wrong with a service, new or changed.

use std::collections::HashSet;

use copepod_api::{FieldError, FieldErrors, FieldPath, names};
use serde_json::Value;

use crate::kinds::at::At;
use crate::kinds::checks::{ip, labels, text};

/// A new service; addresses and ports have been allocated.
pub(crate) fn create(service: &At<'_>) {
    whole(service, None);
}

/// A changed service.
pub(crate) fn update(new: &At<'_>, old: &At<'_>) {
    let (spec, was) = (new.get("spec"), old.get("spec"));
    cluster_ips_kept(&spec, &was);
    families_kept(&spec, &was);
    if spec.is("type", "LoadBalancer")
        && was.is("type", "LoadBalancer")
        && spec.get("loadBalancerClass").value() != was.get("loadBalancerClass").value()
    {
        spec.get("loadBalancerClass").invalid("may not change once set");
    }
    if needs_health_check(&spec)
        && needs_health_check(&was)
        && spec.get("healthCheckNodePort").value() != was.get("healthCheckNodePort").value()
    {
        spec.get("healthCheckNodePort").forbidden("field is immutable");
    }
    whole(new, Some(&was));
}

fn is_headless(spec: &At<'_>) -> bool {
    spec.get("clusterIPs").strings() == ["None"]
}

fn needs_health_check(spec: &At<'_>) -> bool {
    spec.is("type", "LoadBalancer") && spec.is("externalTrafficPolicy", "Local")
}

fn reachable(spec: &At<'_>) -> bool {
    matches!(spec.get("type").str(), "LoadBalancer" | "NodePort")
        || (spec.is("type", "ClusterIP") && !spec.get("externalIPs").is_empty())
}

fn whole(service: &At<'_>, was: Option<&At<'_>>) {
    let spec = service.get("spec");
    let (headless, kind) = (is_headless(&spec), spec.get("type"));
    if spec.get("ports").is_empty() && !headless && kind.str() != "ExternalName" {
        spec.get("ports").required("");
    }
    by_type(&spec, headless);
    let several = spec.get("ports").array().len() > 1;
    let mut seen = HashSet::new();
    for at in spec.get("ports").items() {
        port(&at, several, &mut seen);
    }
    labels::labels(&spec.get("selector"));
    affinity(&spec);
    cluster_ips(&spec, was);
    let old_ips = was.map(|w| w.get("externalIPs").strings()).unwrap_or_default();
    for at in spec.get("externalIPs").items() {
        let before = at.errors();
        ip::address(&at, &old_ips);
        if at.errors() == before {
            ip::endpoint(&at);
        }
    }
    kind.need_one_of(&["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    port_numbers(&spec);
    load_balancer(&spec, was);
    traffic(&spec);
}

fn by_type(spec: &At<'_>, headless: bool) {
    let kind = spec.get("type").str();
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let path = spec.get("clusterIPs").path().index(0);
            let why = format!("may not be set to 'None' for {kind} services");
            spec.push(FieldError::invalid(&path, "None", why));
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if !spec.get(field).is_empty() {
                    spec.get(field).forbidden("may not be set for ExternalName services");
                }
            }
            let name = spec.get("externalName");
            let bare = name.str().strip_suffix('.').unwrap_or_else(|| name.str());
            if bare.is_empty() {
                name.required("");
            } else {
                names::dns1123_subdomain(bare).into_iter().for_each(|error| name.invalid_as(bare, error));
            }
        }
        _ => {}
    }
}

fn port<'a>(at: &At<'a>, named: bool, seen: &mut HashSet<&'a str>) {
    let name = at.get("name");
    if name.is_empty() {
        if named {
            name.required("");
        }
    } else {
        name.text(names::dns1123_label);
        if !seen.insert(name.str()) {
            name.duplicate();
        }
    }
    text::port(&at.get("port"));
    at.get("protocol").need_one_of(&["SCTP", "TCP", "UDP"]);
    text::port_or_name(&at.get("targetPort"));
    if at.get("appProtocol").present() {
        labels::key(&at.get("appProtocol"));
    }
}

fn affinity(spec: &At<'_>) {
    let (affinity, config) = (spec.get("sessionAffinity"), spec.get("sessionAffinityConfig"));
    affinity.need_one_of(&["ClientIP", "None"]);
    match affinity.str() {
        "ClientIP" => {
            let why = "when session affinity type is ClientIP";
            let (client, timeout) = (config.get("clientIP"), config.at("clientIP.timeoutSeconds"));
            for part in [&config, &client, &timeout] {
                if !part.present() {
                    return part.required(why);
                }
            }
            if timeout.int().is_some_and(|n| n <= 0 || n > 86400) {
                timeout.invalid("must be greater than 0 and less than 86400");
            }
        }
        "None" if config.present() => config.forbidden("must not be set when session affinity is None"),
        _ => {}
    }
}

fn families_of(ips: &[&str]) -> (usize, usize) {
    let v6 = ips.iter().filter(|ip| ip.contains(':')).count();
    (ips.len() - v6, v6)
}

/// What is wrong with the addresses and families a client asks for; looked at before any is allocated.
pub(crate) fn asked(new: &Value, old: Option<&Value>) -> FieldErrors {
    let sink = std::cell::RefCell::default();
    let was = old.map(|old| At::root(old, &sink).get("spec"));
    cluster_ips(&At::root(new, &sink).get("spec"), was.as_ref());
    drop(was);
    sink.into_inner()
}

fn cluster_ips(spec: &At<'_>, was: Option<&At<'_>>) {
    if spec.is("type", "ExternalName") {
        return;
    }
    let (one, list, families) = (spec.get("clusterIP"), spec.get("clusterIPs"), spec.get("ipFamilies"));
    let ips = list.strings();
    match (one.str(), ips.first()) {
        ("", Some(_)) => list.invalid("must be empty when `clusterIP` is not specified"),
        ("", None) => {}
        (_, None) => list.required(""),
        (one, Some(first)) if *first != one => list.invalid("first value must match `clusterIP`"),
        _ => {}
    }
    let mut seen = HashSet::new();
    for family in families.items() {
        family.one_of(&["IPv4", "IPv6"]);
        if !seen.insert(family.str()) {
            family.duplicate();
        }
    }
    spec.get("ipFamilyPolicy").one_of(&["PreferDualStack", "RequireDualStack", "SingleStack"]);
    let old = was.map(|w| w.get("clusterIPs").strings()).unwrap_or_default();
    let before = list.errors();
    for (i, at) in list.items().enumerate() {
        if i == 0 && at.str() == "None" {
            if ips.len() > 1 {
                list.invalid("'None' must be the first and only value");
            }
        } else {
            ip::address(&at, &old);
        }
    }
    let sound = list.errors() == before;
    if ips.len() > 2 {
        list.invalid("may only hold up to 2 values");
    }
    if !sound {
        return;
    }
    if ips.len() > 1 && families_of(&ips) != (1, 1) {
        list.invalid("may specify no more than one IP for each IP family");
    }
    if is_headless(spec) {
        return;
    }
    for ((i, ip), family) in list.items().enumerate().zip(families.strings()) {
        let is_v6 = ip.str().contains(':');
        if (family == "IPv6") != is_v6 && matches!(family, "IPv4" | "IPv6") {
            ip.invalid(format!("expected an {family} value as indicated by `ipFamilies[{i}]`"));
        }
    }
}

fn port_numbers(spec: &At<'_>) {
    let ports: Vec<At<'_>> = spec.get("ports").items().collect();
    let node = |at: &At<'_>| at.get("nodePort").int().unwrap_or(0);
    if spec.is("type", "ClusterIP") {
        for at in ports.iter().filter(|at| node(at) != 0) {
            at.get("nodePort").forbidden("may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut seen = HashSet::new();
    for at in ports.iter().filter(|at| node(at) != 0) {
        if !seen.insert((at.get("protocol").str(), node(at))) {
            at.get("nodePort").duplicate();
        }
    }
    let mut seen = HashSet::new();
    for at in &ports {
        let (protocol, number) = (at.get("protocol").str(), at.get("port").int().unwrap_or(0));
        if !seen.insert((protocol, number)) {
            // The value shown is the key of the comparison, as upstream's type prints.
            let shown = format!(
                r#"{{"Name":"","Protocol":{},"AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#,
                Value::from(protocol)
            );
            at.push(FieldError::duplicate(at.path(), Value::Null).showing(shown));
        }
    }
}

fn load_balancer(spec: &At<'_>, was: Option<&At<'_>>) {
    let balanced = spec.is("type", "LoadBalancer");
    let ranges = spec.get("LoadBalancerSourceRanges").holding(&spec.get("loadBalancerSourceRanges"));
    if !ranges.is_empty() {
        if !balanced {
            ranges.forbidden("may only be used when `type` is 'LoadBalancer'");
        }
        let old = was.map(|w| w.get("loadBalancerSourceRanges").strings()).unwrap_or_default();
        ranges.items().for_each(|range| ip::cidr(&range, &old));
    }
    let allocate = spec.get("allocateLoadBalancerNodePorts");
    if allocate.present() && !balanced {
        allocate.forbidden("may only be used when `type` is 'LoadBalancer'");
    }
    if !allocate.present() && balanced {
        allocate.named(FieldPath::new("allocateLoadBalancerNodePorts")).required("");
    }
    let class = spec.get("loadBalancerClass");
    if class.present() && balanced {
        labels::key(&class);
    } else if class.present() {
        class.forbidden("may only be used when `type` is 'LoadBalancer'");
    }
}

fn traffic(spec: &At<'_>) {
    let external = spec.get("externalTrafficPolicy");
    if reachable(spec) {
        external.need_one_of(&["Cluster", "Local"]);
    } else if !external.is_empty() {
        external.invalid("may only be set for externally-accessible services");
    }
    let health = spec.get("healthCheckNodePort");
    let number = health.int().unwrap_or(0);
    match (needs_health_check(spec), number) {
        (false, 0) => {}
        (false, _) => {
            health.invalid(
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
            );
        }
        (true, 0) => health.required(""),
        (true, _) => text::port(&health),
    }
    let internal = spec.get("internalTrafficPolicy");
    let wanted = matches!(spec.get("type").str(), "ClusterIP" | "NodePort" | "LoadBalancer");
    if wanted && !internal.present() {
        internal.required("");
    }
    internal.one_of(&["Cluster", "Local"]);
    spec.get("trafficDistribution").one_of(&["PreferClose", "PreferSameZone", "PreferSameNode"]);
}

/// Cluster addresses stay; the second may come and go.
fn cluster_ips_kept(spec: &At<'_>, was: &At<'_>) {
    if spec.is("type", "ExternalName")
        || was.is("type", "ExternalName")
        || (is_headless(spec) && is_headless(was))
    {
        return;
    }
    let list = spec.get("clusterIPs");
    let (now, before) = (list.strings(), was.get("clusterIPs").strings());
    let shown = list.value().cloned().unwrap_or(Value::Null);
    let changed = |i: usize, why: &str| {
        spec.push(FieldError::invalid(&list.path().index(i), shown.clone(), why));
    };
    if now.len() == before.len() {
        for i in (0..now.len()).filter(|i| now.get(*i) != before.get(*i)) {
            changed(i, "may not change once set");
        }
        return;
    }
    if now.is_empty() {
        changed(0, "primary clusterIP can not be unset");
    } else if !before.is_empty() && now.first() != before.first() {
        changed(0, "may not change once set");
    }
    if now.len() == 1 && before.len() > 1 && !spec.is("ipFamilyPolicy", "SingleStack") {
        spec.get("ipFamilyPolicy")
            .invalid("must be set to 'SingleStack' when releasing the secondary clusterIP");
    }
}

fn families_kept(spec: &At<'_>, was: &At<'_>) {
    if spec.is("type", "ExternalName")
        || was.is("type", "ExternalName")
        || is_headless(spec)
        || is_headless(was)
    {
        return;
    }
    let list = spec.get("ipFamilies");
    let (now, before) = (list.strings(), was.get("ipFamilies").strings());
    let first = list.path().index(0);
    let shown = list.value().cloned().unwrap_or(Value::Null);
    if now.len() == before.len() {
        for _ in (0..now.len()).filter(|i| now.get(*i) != before.get(*i)) {
            spec.push(FieldError::invalid(&first, shown.clone(), "may not change once set"));
        }
    } else if !now.is_empty() && !before.is_empty() && now.first() != before.first() {
        let ips = spec.get("clusterIPs").value().cloned().unwrap_or(Value::Null);
        spec.push(FieldError::invalid(&first, ips, "may not change once set"));
    }
    if now.len() == 1 && before.len() > 1 && !spec.is("ipFamilyPolicy", "SingleStack") {
        spec.get("ipFamilyPolicy")
            .invalid("must be set to 'SingleStack' when releasing the secondary ipFamily");
    }
}

/// A changed status.
pub(crate) fn status(new: &At<'_>, _old: &At<'_>) {
    let ingress = new.at("status.loadBalancer.ingress");
    if !ingress.is_empty()
        && !new.at("spec.type").str().is_empty()
        && new.at("spec.type").str() != "LoadBalancer"
    {
        return ingress.forbidden("may only be used when `spec.type` is 'LoadBalancer'");
    }
    for at in ingress.items() {
        let (address, mode, host) = (at.get("ip"), at.get("ipMode"), at.get("hostname"));
        if !address.is_empty() {
            ip::address(&address, &[]);
            if !mode.present() {
                mode.required("must be specified when `ip` is set");
            }
        } else if mode.present() {
            mode.forbidden("may not be specified when `ip` is not set");
        }
        mode.one_of(&["Proxy", "VIP"]);
        if !host.is_empty() {
            names::dns1123_subdomain(host.str()).into_iter().for_each(|error| host.invalid(error));
            if host.str().parse::<std::net::IpAddr>().is_ok() {
                host.invalid("must be a DNS name, not an IP address");
            }
        }
    }
}
