//! Environment variables and references to fields and resources.

use copepod_api::names;

use crate::kinds::at::At;
use crate::kinds::checks::{amounts, text};

const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields that volumes can show.
pub(crate) const VOLUME_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const SOURCES: &[&str] = &["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

/// `env` of a container.
pub(crate) fn vars(list: &At<'_>) {
    for at in list.items() {
        if at.get("name").need() {
            at.get("name").text(text::env_name);
        }
        value_from(&at);
    }
}

fn value_from(var: &At<'_>) {
    let at = var.get("valueFrom");
    if !at.present() {
        return;
    }
    let given = SOURCES.iter().filter(|source| at.get(source).present()).count();
    if at.get("fieldRef").present() {
        field_ref(&at.get("fieldRef"), FIELDS);
    }
    if at.get("resourceFieldRef").present() {
        resource_ref(&at.get("resourceFieldRef"), false);
    }
    for source in ["configMapKeyRef", "secretKeyRef"] {
        let reference = at.get(source);
        if reference.present() {
            reference.get("name").invalid_all(names::dns1123_subdomain(reference.get("name").str()));
            if reference.get("key").need() {
                reference.get("key").text(text::config_key);
            }
        }
    }
    file_key(&at.get("fileKeyRef"));
    if given == 0 {
        at.invalid_as(
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        );
    } else if !var.get("value").is_empty() {
        at.invalid_as("", "may not be specified when `value` is not empty");
    } else if given > 1 {
        at.invalid_as("", "may not have more than one field specified at a time");
    }
}

fn file_key(at: &At<'_>) {
    if !at.present() {
        return;
    }
    if at.get("key").need() {
        at.get("key").text(text::env_name);
    }
    if at.get("volumeName").need() {
        at.get("volumeName").text(names::dns1123_label);
    }
    if at.get("path").need() {
        text::no_backsteps(&at.get("path"));
    }
}

/// A reference to a field of the pod.
pub(crate) fn field_ref(at: &At<'_>, supported: &[&str]) {
    if !at.get("apiVersion").need() || !at.get("fieldPath").need() {
        return;
    }
    let path = at.get("fieldPath");
    let text = path.str();
    let (base, subscript) = match text.strip_suffix("']").and_then(|t| t.split_once("['")) {
        Some((base, subscript)) => (base, Some(subscript)),
        None => (text, None),
    };
    if let Some(error) = unconvertible(at.get("apiVersion").str(), base, subscript.is_some(), text) {
        return path.invalid(format!("error converting fieldPath: {error}"));
    }
    match (base, subscript) {
        ("metadata.annotations", Some(key)) => {
            let key = key.to_lowercase();
            names::qualified_name(&key).into_iter().for_each(|e| at.invalid_as(key.as_str(), e));
        }
        ("metadata.labels", Some(key)) => {
            names::qualified_name(key).into_iter().for_each(|e| at.invalid_as(key, e));
        }
        (base, None) if !supported.contains(&base) => path.not_supported(supported),
        _ => {}
    }
}

/// Why the API knows no such field of a pod.
fn unconvertible(version: &str, base: &str, subscripted: bool, text: &str) -> Option<String> {
    let map = matches!(base, "metadata.annotations" | "metadata.labels");
    let known = map
        || FIELDS.contains(&base)
        || matches!(base, "spec.restartPolicy" | "spec.schedulerName" | "spec.host" | "status.phase");
    match () {
        () if version != "v1" => Some(format!("unsupported pod version: {version}")),
        () if subscripted && !map => Some(format!("field label does not support subscript: {text}")),
        () if !known => Some(format!("field label not supported: {text}")),
        () => None,
    }
}

/// A reference to a container's resource; in volumes the container must be named.
pub(crate) fn resource_ref(at: &At<'_>, in_volume: bool) {
    let resource = at.get("resource");
    let huge = ["requests.hugepages-", "limits.hugepages-"].iter().any(|p| resource.str().starts_with(p));
    if in_volume && at.get("containerName").is_empty() {
        at.get("containerName").required("");
    } else if resource.is_empty() {
        resource.required("");
    } else if !RESOURCES.contains(&resource.str()) && !huge {
        resource.not_supported(RESOURCES);
    }
    divisor(at, resource.str(), huge);
}

fn divisor(at: &At<'_>, resource: &str, huge: bool) {
    let Some(amount) = amounts::amount(&at.get("divisor")).filter(|d| !d.is_zero()) else { return };
    let divisor = amount.to_string();
    let bytes = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
    let what = resource.split_once('.').map_or("", |(_, what)| what);
    let (allowed, name) = match what {
        "cpu" => ("1m, 1", "cpu"),
        "memory" => (bytes, "memory"),
        "ephemeral-storage" => (bytes, "local ephemeral storage"),
        _ if huge => (bytes, "hugepages"),
        _ => return,
    };
    if !allowed.split(", ").any(|a| a == divisor) {
        let list = if what == "cpu" { "1m and 1".to_owned() } else { allowed.to_owned() };
        at.get("divisor").invalid_as(
            resource,
            format!("only divisor's values {list} are supported with the {name} resource"),
        );
    }
}

/// `envFrom` of a container.
pub(crate) fn from(list: &At<'_>) {
    for at in list.items() {
        if !at.get("prefix").is_empty() {
            at.get("prefix").text(text::env_name);
        }
        let sources = ["configMapRef", "secretRef"].map(|source| at.get(source));
        for source in sources.iter().filter(|s| s.present()) {
            text::need_name(&source.get("name"));
        }
        match sources.iter().filter(|s| s.present()).count() {
            0 => list.invalid_as("", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => list.invalid_as("", "may not have more than one field specified at a time"),
        }
    }
}
