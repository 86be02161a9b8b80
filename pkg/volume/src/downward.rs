//! The downward API: fields of the pod and resources of its containers as text.
//! (`k8s.io/kubernetes/pkg/fieldpath`, `pkg/api/v1/resource`.)

use std::collections::BTreeMap;

use copepod_api::Quantity;
use copepod_api::field::quote;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};

use crate::error::VolumeError;
use crate::source::NodeFacts;

/// The value of `fieldRef.fieldPath`. `pod_ips` are the sandbox' addresses, which status may not show yet.
///
/// # Errors
/// A path that is no field of the downward API.
pub fn field(pod: &Pod, path: &str, pod_ips: &[String], node: &NodeFacts) -> Result<String, VolumeError> {
    let meta = &pod.metadata;
    let spec = pod.spec.as_ref();
    let join = |ips: &[String]| ips.join(",");
    if let Some((map, key)) = subscript(path) {
        let map = match map {
            "metadata.annotations" => meta.annotations.as_ref(),
            "metadata.labels" => meta.labels.as_ref(),
            _ => return Err(unsupported(path)),
        };
        return Ok(map.and_then(|m| m.get(key)).cloned().unwrap_or_default());
    }
    Ok(match path {
        "metadata.name" => meta.name.clone().unwrap_or_default(),
        "metadata.namespace" => meta.namespace.clone().unwrap_or_default(),
        "metadata.uid" => meta.uid.clone().unwrap_or_default(),
        "metadata.annotations" => format_map(meta.annotations.as_ref()),
        "metadata.labels" => format_map(meta.labels.as_ref()),
        "spec.nodeName" => spec.and_then(|s| s.node_name.clone()).unwrap_or_default(),
        "spec.serviceAccountName" => spec.and_then(|s| s.service_account_name.clone()).unwrap_or_default(),
        "status.hostIP" => node.host_ips.first().map(ToString::to_string).unwrap_or_default(),
        "status.hostIPs" => join(&node.host_ips.iter().map(ToString::to_string).collect::<Vec<_>>()),
        "status.podIP" => pod_ips.first().cloned().unwrap_or_default(),
        "status.podIPs" => join(pod_ips),
        _ => return Err(unsupported(path)),
    })
}

fn unsupported(path: &str) -> VolumeError {
    VolumeError::Invalid(format!("unsupported fieldPath: {path}"))
}

/// Splits `metadata.labels['key']`.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.split_once("['")?;
    Some((map, rest.strip_suffix("']")?))
}

fn format_map(map: Option<&BTreeMap<String, String>>) -> String {
    let lines = map.into_iter().flatten().map(|(key, value)| format!("{key}={}", quote(value)));
    lines.collect::<Vec<_>>().join("\n")
}

/// The value of a `resourceFieldRef`, in units of its divisor, rounded up. A limit that is not set is the node's.
///
/// # Errors
/// A resource the downward API does not know, or a quantity that is none.
pub fn resource(
    container: &Container,
    selector: &ResourceFieldSelector,
    node: &NodeFacts,
) -> Result<String, VolumeError> {
    let unknown = || VolumeError::Invalid(format!("unsupported container resource : {}", selector.resource));
    let (kind, name) = selector.resource.split_once('.').ok_or_else(unknown)?;
    let resources = container.resources.as_ref();
    let (amounts, fallback) = match kind {
        "limits" => (resources.and_then(|r| r.limits.as_ref()), node_amount(name, node)),
        "requests" => (resources.and_then(|r| r.requests.as_ref()), None),
        _ => return Err(unknown()),
    };
    if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !name.starts_with("hugepages-") {
        return Err(unknown());
    }
    let set = amounts.and_then(|a| a.get(name)).map(|q| parse(&q.0)).transpose()?.filter(|q| !q.is_zero());
    let amount = set.or(fallback).unwrap_or(Quantity::ZERO);
    let divisor = selector.divisor.as_ref().map(|d| parse(&d.0)).transpose()?.filter(|d| !d.is_zero());
    let (amount, divisor) = if name == "cpu" {
        (amount.millis(), divisor.map_or(1000, Quantity::millis))
    } else {
        (amount.units(), divisor.map_or(1, Quantity::units))
    };
    Ok((amount / divisor + i64::from(amount % divisor != 0)).to_string())
}

fn node_amount(name: &str, node: &NodeFacts) -> Option<Quantity> {
    match name {
        "cpu" => Some(node.cpu),
        "memory" => Some(node.memory),
        "ephemeral-storage" => Some(node.ephemeral_storage),
        _ => None,
    }
}

fn parse(text: &str) -> Result<Quantity, VolumeError> {
    text.parse().map_err(|e| VolumeError::Invalid(format!("quantity {text:?}: {e}")))
}

/// Expands `$(NAME)`; `$$` is a dollar, an unknown name stays as written (`k8s.io/kubernetes/third_party/forked/golang/expansion`).
#[must_use]
pub fn expand(text: &str, env: &[(String, String)]) -> String {
    expand_with(text, &mut |name| lookup(name, env).map_or_else(|| format!("$({name})"), str::to_owned))
}

/// The same where every name must be known, as in `subPathExpr`.
///
/// # Errors
/// Names the first unknown variable.
pub fn expand_strict(text: &str, env: &[(String, String)]) -> Result<String, VolumeError> {
    let mut missing = None;
    let expanded = expand_with(text, &mut |name| {
        let value = lookup(name, env);
        if value.is_none() {
            missing.get_or_insert_with(|| name.to_owned());
        }
        value.unwrap_or_default().to_owned()
    });
    match missing {
        None => Ok(expanded),
        Some(name) => Err(VolumeError::Invalid(format!("missing value for {name:?}"))),
    }
}

/// The last setting of a name wins, as in a process' environment.
fn lookup<'a>(name: &str, env: &'a [(String, String)]) -> Option<&'a str> {
    env.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn expand_with(text: &str, value: &mut dyn FnMut(&str) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = after;
        if let Some(escaped) = after.strip_prefix('$') {
            out.push('$');
            rest = escaped;
        } else if let Some((name, tail)) = after.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            out.push_str(&value(name));
            rest = tail;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node() -> NodeFacts {
        NodeFacts {
            host_ips: vec!["192.168.1.5".parse().unwrap()],
            cpu: Quantity::from_units(2),
            memory: Quantity::from_bytes(1 << 30),
            ephemeral_storage: Quantity::ZERO,
        }
    }

    #[test]
    fn fields() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "labels": {"b": "2", "a": "x\"y"}},
            "spec": {"containers": [], "nodeName": "n1"}
        }))
        .unwrap();
        let get = |path: &str| field(&pod, path, &["10.244.0.9".to_owned()], &node());
        assert_eq!(get("metadata.labels").unwrap(), "a=\"x\\\"y\"\nb=\"2\"");
        assert_eq!(get("metadata.labels['b']").unwrap(), "2");
        assert_eq!(get("status.podIP").unwrap(), "10.244.0.9");
        assert_eq!(get("status.hostIP").unwrap(), "192.168.1.5");
        assert!(get("spec.containers").is_err());
    }

    #[test]
    fn references_are_expanded() {
        let env = [("A".to_owned(), "1".to_owned()), ("A".to_owned(), "2".to_owned())];
        assert_eq!(expand("x$(A)y$$(A)$(B)$", &env), "x2y$(A)$(B)$");
        assert_eq!(expand("$(A", &env), "$(A");
        assert_eq!(expand_strict("$(A)", &env).unwrap(), "2");
        assert_eq!(expand_strict("$(B)", &env).unwrap_err().to_string(), "missing value for \"B\"");
    }

    #[test]
    fn resources_are_divided_and_rounded_up() {
        let container: Container = serde_json::from_value(json!({
            "name": "c",
            "resources": {"requests": {"cpu": "250m", "memory": "100Mi"}, "limits": {"memory": "150M"}}
        }))
        .unwrap();
        let get = |resource: &str, divisor: Option<&str>| {
            let selector: ResourceFieldSelector =
                serde_json::from_value(json!({"resource": resource, "divisor": divisor})).unwrap();
            super::resource(&container, &selector, &node())
        };
        assert_eq!(get("requests.cpu", None).unwrap(), "1");
        assert_eq!(get("requests.cpu", Some("1m")).unwrap(), "250");
        assert_eq!(get("limits.cpu", None).unwrap(), "2", "the node's");
        assert_eq!(get("limits.memory", Some("1Mi")).unwrap(), "144");
        assert_eq!(get("requests.ephemeral-storage", None).unwrap(), "0");
        assert!(get("requests.nonsense", None).is_err());
    }
}
