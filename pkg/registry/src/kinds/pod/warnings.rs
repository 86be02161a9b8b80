//! Warnings about pods and pod templates.

use std::collections::{HashMap, HashSet};

use copepod_api::{FieldPath, names};
use serde_json::Value;

use crate::kinds::at::At;
use crate::kinds::checks::warn;

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
    warnings.extend(warn::about(pod, FieldPath::root(), |at, warnings| whole(at, false, warnings)));
    warnings
}

/// Warnings about a template at `path`.
pub(crate) fn template(template: &Value, path: &str) -> Vec<String> {
    warn::about(template, FieldPath::new(path), |at, warnings| whole(at, true, warnings))
}

const OLD_ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
    ),
    ("security.alpha.kubernetes.io/sysctls", r#"non-functional in v1.11+; use the "sysctls" field instead"#),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        r#"non-functional in v1.11+; use the "sysctls" field instead"#,
    ),
];

/// Sources of volumes that are out of use.
pub(crate) const OLD_VOLUMES: &[(&str, &str)] = &[
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

const SECCOMP: &str = r#"non-functional in v1.27+; use the "seccompProfile" field instead"#;

fn whole(at: &At<'_>, template: bool, warnings: &mut Vec<String>) {
    let spec = at.get("spec");
    placement(&spec, warnings);
    let annotations = at.at("metadata.annotations");
    warn::old_keys(&annotations, OLD_ANNOTATIONS, warnings);
    for volume in spec.get("volumes").items() {
        warn::out_of_use(&volume, OLD_VOLUMES, warnings);
        warn::claim(&volume.at("ephemeral.volumeClaimTemplate.spec"), warnings);
    }
    super::overlaps::volumes(&spec.get("volumes"), warnings);
    references(&spec, warnings);
    for resource in ["memory", "ephemeral-storage"] {
        warn::fraction(&spec.get("overhead").key(resource), warnings);
    }
    if !spec.at("securityContext.seccompProfile").present() {
        warn::old_keys(&annotations, &[("seccomp.security.alpha.kubernetes.io/pod", SECCOMP)], warnings);
    }
    for container in containers(&spec) {
        old_profiles(&container, &annotations, template, warnings);
        container_fractions(&container, warnings);
        env(&container, warnings);
    }
    ports(&spec, warnings);
    port_names(&spec, warnings);
    let grace = spec.get("terminationGracePeriodSeconds");
    if grace.int().is_some_and(|n| n < 0) {
        warnings.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            grace.path()
        ));
    }
    affinity(&spec, warnings);
    spec.at("dnsConfig.nameservers").items().for_each(|at| warn::address(&at, warnings));
    spec.get("hostAliases").items().for_each(|at| warn::address(&at.get("ip"), warnings));
}

/// All containers in upstream's order of visits.
fn containers<'a>(spec: &At<'a>) -> Vec<At<'a>> {
    ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .flat_map(|list| spec.get(list).items())
        .collect()
}

fn placement(spec: &At<'_>, warnings: &mut Vec<String>) {
    for (key, place) in spec.get("nodeSelector").entries() {
        if let Some(text) = warn::old_label(key) {
            warnings.push(format!("{}: {text}", place.path()));
        }
    }
    let affinity = spec.at("affinity.nodeAffinity");
    let required = affinity.at("requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    required.items().for_each(|term| warn::expressions(&term, warnings));
    let preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution");
    preferred.items().for_each(|term| warn::expressions(&term.get("preference"), warnings));
    for constraint in spec.get("topologySpreadConstraints").items() {
        let key = constraint.get("topologyKey");
        if let Some(text) = warn::old_label(key.str()) {
            warnings.push(format!("{}: {} is {text}", key.path(), key.str()));
        }
        needs_selector(&constraint, warnings);
    }
}

fn needs_selector(term: &At<'_>, warnings: &mut Vec<String>) {
    let selector = term.get("labelSelector");
    if !selector.present() {
        warnings.push(format!("{}: a null labelSelector results in matching no pod", selector.path()));
    }
}

fn affinity(spec: &At<'_>, warnings: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let at = spec.get("affinity").get(kind);
        let required = at.get("requiredDuringSchedulingIgnoredDuringExecution");
        required.items().for_each(|term| needs_selector(&term, warnings));
        let preferred = at.get("preferredDuringSchedulingIgnoredDuringExecution");
        preferred.items().for_each(|term| needs_selector(&term.get("podAffinityTerm"), warnings));
    }
}

/// Host aliases and pull secrets that come twice or have no name.
fn references(spec: &At<'_>, warnings: &mut Vec<String>) {
    for (list, field, what) in [("hostAliases", "ip", "ip"), ("imagePullSecrets", "name", "name")] {
        let mut seen = HashSet::new();
        for at in spec.get(list).items().map(|item| item.get(field)) {
            if !seen.insert(at.str()) {
                warnings.push(format!("{}: duplicate {what} {:?}", at.path(), at.str()));
            }
        }
    }
    for name in spec.get("imagePullSecrets").items().map(|s| s.get("name")).filter(At::is_empty) {
        warnings.push(format!("{}: invalid empty name \"\"", name.path()));
    }
}

/// Annotations in place of a container's own profiles.
fn old_profiles(container: &At<'_>, annotations: &At<'_>, template: bool, warnings: &mut Vec<String>) {
    let (name, security) = (container.get("name").str(), container.get("securityContext"));
    if !security.get("seccompProfile").present() {
        let key = format!("container.seccomp.security.alpha.kubernetes.io/{name}");
        warn::old_keys(annotations, &[(&key, SECCOMP)], warnings);
    }
    let key = format!("{}{name}", super::APP_ARMOR);
    let named = super::app_armor_profile(annotations.key(&key).str());
    let own = security.get("appArmorProfile");
    // A pod's annotation has already become the field.
    let synced = !template && named.as_ref() == own.value();
    if synced || (template && !own.present()) {
        let text = r#"deprecated since v1.30; use the "appArmorProfile" field instead"#;
        warn::old_keys(annotations, &[(&key, text)], warnings);
    }
}

fn container_fractions(container: &At<'_>, warnings: &mut Vec<String>) {
    for resource in ["memory", "ephemeral-storage"] {
        for list in ["limits", "requests"] {
            warn::fraction(&container.get("resources").get(list).key(resource), warnings);
        }
    }
}

fn env(container: &At<'_>, warnings: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for var in container.get("env").items() {
        let (name, value) = (var.get("name").str(), var.get("value").str());
        let own = format!("$({name})");
        let hides = var.get("valueFrom").present() || value == own || !value.contains(&own);
        if !seen.insert(name) && hides {
            warnings.push(format!(
                "{}: hides previous definition of {name:?}, which may be dropped when using apply",
                var.path()
            ));
        }
    }
}

/// Ports of all containers that may get in each other's way.
fn ports(spec: &At<'_>, warnings: &mut Vec<String>) {
    let mut all: HashMap<String, Vec<At<'_>>> = HashMap::new();
    for port in containers(spec).iter().flat_map(|c| c.get("ports").items()) {
        let (ip, host) = (port.get("hostIP").str(), port.get("hostPort").int().unwrap_or(0));
        let number = port.get("containerPort").int().unwrap_or(0);
        let others = all.entry(format!("{number}/{}", port.get("protocol").str())).or_default();
        for other in others.iter() {
            let (its_ip, its_host) = (other.get("hostIP").str(), other.get("hostPort").int().unwrap_or(0));
            let how = if ip == its_ip && host == its_host {
                "duplicate"
            } else if host == 0 || its_host == 0 {
                "overlapping"
            } else if host == its_host && ip.is_empty() != its_ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!("{}: {how} port definition with {}", port.path(), other.path()));
        }
        others.push(port);
    }
}

fn port_names(spec: &At<'_>, warnings: &mut Vec<String>) {
    let mut seen: HashMap<&str, FieldPath> = HashMap::new();
    for port in containers(spec).iter().flat_map(|c| c.get("ports").items()) {
        let name = port.get("name").str();
        if name.is_empty() {
            continue;
        }
        match seen.get(name) {
            Some(first) => warnings.push(format!(
                "{}: duplicate port name {name:?} with {first}, services and probes that select ports by name will use {first}",
                port.path()
            )),
            None => drop(seen.insert(name, port.path().clone())),
        }
    }
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
