//! Warnings about services.

use copepod_api::FieldPath;
use serde_json::Value;

use crate::kinds::at::At;
use crate::kinds::checks::warn;

/// Warnings about a new service, or a changed one: upstream gives the same.
pub(super) fn warnings(new: &Value, _old: Option<&Value>) -> Vec<String> {
    warn::about(new, FieldPath::root(), |service, warnings| {
        if service.at("metadata.annotations").key("service.kubernetes.io/topology-aware-hints").present() {
            warnings.push("annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead".to_owned());
        }
        about(&service.get("spec"), warnings);
    })
}

fn about(spec: &At<'_>, warnings: &mut Vec<String>) {
    let (external, balancer) = (spec.get("externalIPs"), spec.get("loadBalancerIP"));
    let headless = spec.is("type", "ClusterIP") && spec.is("clusterIP", "None");
    let named = spec.is("type", "ExternalName");
    if !spec.get("clusterIP").is_empty() && !headless && !named {
        spec.get("clusterIPs").items().for_each(|at| warn::address(&at, warnings));
    }
    if headless {
        ignored_when_headless(spec, warnings);
    }
    external.items().for_each(|at| warn::address(&at, warnings));
    if !external.is_empty() && !headless && !named {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
        );
    }
    if !balancer.is_empty() {
        warn::address(&balancer, warnings);
    }
    spec.get("loadBalancerSourceRanges").items().for_each(|at| warn::network(&at, warnings));
    if named && !external.is_empty() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !named && !spec.get("externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.is("trafficDistribution", "PreferClose") {
        warnings.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned(),
        );
    }
}

fn ignored_when_headless(spec: &At<'_>, warnings: &mut Vec<String>) {
    let ignored = [
        ("loadBalancerIP", !spec.get("loadBalancerIP").is_empty()),
        ("externalIPs", !spec.get("externalIPs").is_empty()),
        ("SessionAffinity", !spec.is("sessionAffinity", "None")),
    ];
    for (field, _) in ignored.iter().filter(|(_, set)| *set) {
        warnings.push(format!("spec.{field} is ignored for headless services"));
    }
}
