//! Warnings about pods and pod templates.

use std::collections::HashSet;

use copepod_api::names;
use serde_json::Value;

/// Warnings about a new pod; updates get none, for controllers and kubelets make them.
pub(crate) fn pod(pod: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    let errors = names::dns1123_label(copepod_api::meta::name(pod));
    if !errors.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
            errors.join(" ")
        ));
    }
    warnings.extend(spec(pod.get("spec").unwrap_or(&Value::Null), "spec"));
    warnings
}

/// Warnings about a template at `path`.
pub(crate) fn template(template: &Value, path: &str) -> Vec<String> {
    spec(template.get("spec").unwrap_or(&Value::Null), &format!("{path}.spec"))
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Labels that newer ones replace.
const OLD_NODE_LABELS: &[(&str, &str)] = &[
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
];

fn spec(spec: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for (old, new) in OLD_NODE_LABELS {
        if spec.get("nodeSelector").and_then(|s| s.get(*old)).is_some() {
            warnings
                .push(format!("{path}.nodeSelector[{old}]: deprecated since v1.14; use \"{new}\" instead"));
        }
    }
    for (i, alias) in list(spec, "hostAliases").iter().enumerate() {
        let again = list(spec, "hostAliases").iter().take(i).any(|a| text(a, "ip") == text(alias, "ip"));
        if again {
            warnings.push(format!("{path}.hostAliases: duplicate ip {:?}", text(alias, "ip")));
        }
    }
    for (i, secret) in list(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            warnings.push(format!("{path}.imagePullSecrets[{i}].name: invalid empty name \"\""));
        }
    }
    for (i, volume) in list(spec, "volumes").iter().enumerate() {
        if volume.get("gitRepo").is_some() {
            warnings.push(format!(
                "{path}.volumes[{i}].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"
            ));
        }
    }
    for field in ["initContainers", "containers"] {
        for (i, container) in list(spec, field).iter().enumerate() {
            warnings.extend(containers(container, &format!("{path}.{field}[{i}]")));
        }
    }
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|n| n < 0) {
        warnings.push(format!(
            "{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    warnings
}

fn containers(container: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut seen = HashSet::new();
    for (i, var) in list(container, "env").iter().enumerate() {
        let name = text(var, "name");
        if !seen.insert(name) && !text(var, "value").contains(&format!("$({name})")) {
            warnings.push(format!("{path}.env[{i}]: hides previous definition of {name:?}, which may be dropped when using apply"));
        }
    }
    let mut ports = HashSet::new();
    for (i, port) in list(container, "ports").iter().enumerate() {
        let key = (port.get("containerPort").and_then(Value::as_i64), text(port, "protocol"));
        if !ports.insert(key) {
            let first = list(container, "ports")
                .iter()
                .position(|p| (p.get("containerPort").and_then(Value::as_i64), text(p, "protocol")) == key);
            warnings.push(format!(
                "{path}.ports[{i}]: duplicate port definition with {path}.ports[{}]",
                first.unwrap_or_default()
            ));
        }
    }
    for list in ["requests", "limits"] {
        for resource in ["memory", "ephemeral-storage", "cpu"] {
            let amount = container.pointer(&format!("/resources/{list}/{resource}"));
            let amount = amount.and_then(super::resources::quantity);
            if resource != "cpu" && amount.is_some_and(|a| a.nanos() % 1_000_000_000 != 0) {
                let shown = amount.map(|a| a.to_string()).unwrap_or_default();
                warnings.push(format!(
                    "{path}.resources.{list}[{resource}]: fractional byte value {shown:?} is invalid, must be an integer"
                ));
            }
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn doubtful_pods_are_named() {
        let new = json!({"metadata": {"name": "a.b"}, "spec": {"containers": [{"name": "c",
            "env": [{"name": "X"}, {"name": "X"}], "ports": [{"containerPort": 1}, {"containerPort": 1}]}]}});
        let found = pod(&new, None);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[1].starts_with("spec.containers[0].env[1]: hides previous definition of \"X\""));
        assert!(pod(&new, Some(&new)).is_empty());
    }
}
