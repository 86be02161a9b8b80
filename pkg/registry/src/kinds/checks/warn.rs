//! Warnings that kinds share. They are texts, not errors: the object is stored all the same.

use std::cell::RefCell;
use std::fmt::Display;

use copepod_api::{FieldPath, names};
use serde_json::Value;

use super::ip;
use crate::kinds::at::At;

/// Runs checks that look for warnings over a value at a path.
pub(crate) fn about(
    value: &Value,
    path: FieldPath,
    checks: impl FnOnce(&At<'_>, &mut Vec<String>),
) -> Vec<String> {
    let sink = RefCell::default();
    let mut warnings = Vec::new();
    checks(&At::root(value, &sink).named(path), &mut warnings);
    warnings
}

/// Labels of nodes that others replace.
const OLD_LABELS: &[(&str, &str)] = &[
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("beta.kubernetes.io/arch", r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#),
    (
        "beta.kubernetes.io/instance-type",
        r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#,
    ),
    ("beta.kubernetes.io/os", r#"deprecated since v1.14; use "kubernetes.io/os" instead"#),
    (
        "failure-domain.beta.kubernetes.io/region",
        r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#,
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#,
    ),
    ("node-role.kubernetes.io/master", r#"use "node-role.kubernetes.io/control-plane" instead"#),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
];

/// What to say about a node label, if it is an old one.
pub(crate) fn old_label(key: &str) -> Option<&'static str> {
    OLD_LABELS.iter().find(|(old, _)| *old == key).map(|(_, text)| *text)
}

/// Old labels among the keys of a node selector term's or label selector's `matchExpressions`.
pub(crate) fn expressions(term: &At<'_>, warnings: &mut Vec<String>) {
    for key in term.get("matchExpressions").items().map(|e| e.get("key")) {
        if let Some(text) = old_label(key.str()) {
            warnings.push(format!("{}: {} is {text}", key.path(), key.str()));
        }
    }
}

/// Addresses that are valid but odd.
pub(crate) fn address(at: &At<'_>, warnings: &mut Vec<String>) {
    let Some(ip) = ip::parse_lenient(at.str()) else { return };
    let (path, text) = (at.path(), at.str());
    if text.parse::<std::net::IpAddr>().is_err() || ip::mapped(ip).is_some() {
        let ip = ip::mapped(ip).map_or(ip, Into::into);
        warnings.push(format!(
            "{path}: non-standard IP address {text:?} will be considered invalid in a future Kubernetes release: use \"{ip}\""
        ));
    } else if ip.is_ipv6() && ip.to_string() != text {
        warnings
            .push(format!("{path}: IPv6 address {text:?} should be in RFC 5952 canonical format (\"{ip}\")"));
    }
}

/// Networks that are valid but odd.
pub(crate) fn network(at: &At<'_>, warnings: &mut Vec<String>) {
    let (path, text) = (at.path(), at.str());
    let Some((ip, bits)) = ip::split_network(text) else { return };
    let plain = ip::mapped(ip).map_or(ip, Into::into);
    let network = ip::network_of(plain, bits);
    let before = warnings.len();
    if network != plain {
        let length = if plain.is_ipv4() { 32 } else { 128 };
        warnings.push(format!(
            "{path}: CIDR value {text:?} is ambiguous in this context (should be \"{network}/{bits}\" or \"{plain}/{length}\"?)"
        ));
    }
    let address = text.split('/').next().unwrap_or_default();
    if address.parse::<std::net::IpAddr>().is_err() || ip::mapped(ip).is_some() {
        warnings.push(format!(
            "{path}: non-standard CIDR value {text:?} will be considered invalid in a future Kubernetes release: use \"{network}/{bits}\""
        ));
    }
    if warnings.len() == before && ip.is_ipv6() && format!("{ip}/{bits}") != text {
        warnings.push(format!(
            "{path}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format (\"{ip}/{bits}\")"
        ));
    }
}

/// An amount that is no whole number of bytes.
pub(crate) fn fraction(at: &At<'_>, warnings: &mut Vec<String>) {
    let amount = at.value().and_then(crate::kinds::pod::resources::quantity);
    if let Some(amount) = amount.filter(|a| a.nanos() % 1_000_000_000 != 0) {
        warnings.push(format!(
            "{}: fractional byte value {:?} is invalid, must be an integer",
            at.path(),
            amount.to_string()
        ));
    }
}

/// The storage that a claim asks for.
pub(crate) fn claim(spec: &At<'_>, warnings: &mut Vec<String>) {
    for list in ["requests", "limits"] {
        fraction(&spec.get("resources").get(list).key("storage"), warnings);
    }
}

/// The name of a new object that names pods.
pub(crate) fn names_pods(new: &Value, old: Option<&Value>) -> Vec<String> {
    let errors = names::dns1123_label(copepod_api::meta::name(new));
    if old.is_some() || errors.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
        errors.join(" ")
    )]
}

/// Texts about fields of a map that are out of use.
pub(crate) fn out_of_use(map: &At<'_>, fields: &[(&str, &str)], warnings: &mut Vec<String>) {
    for (field, text) in fields {
        if map.get(field).present() {
            warnings.push(say(map.get(field).path(), text));
        }
    }
}

/// The same about keys of a map.
pub(crate) fn old_keys(map: &At<'_>, keys: &[(&str, &str)], warnings: &mut Vec<String>) {
    for (key, text) in keys {
        if map.key(key).present() {
            warnings.push(say(map.key(key).path(), text));
        }
    }
}

fn say(path: impl Display, text: &str) -> String {
    format!("{path}: {text}")
}
