//! A pod's spec as a whole.

use std::collections::HashSet;

use copepod_api::{FieldError, names};
use serde_json::Value;

use super::container::{self, Around};
use super::{placement, resources, security, volumes};
use crate::kinds::at::At;
use crate::kinds::checks::{amounts, ip, labels, text, topology};

/// Whose spec it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner<'a> {
    /// The pod's name; `None` for templates.
    pub(crate) pod_name: Option<&'a str>,
}

/// Everything wrong with a pod's spec.
pub(crate) fn spec(at: &At<'_>, owner: Owner<'_>) {
    if !at.get("terminationGracePeriodSeconds").present() {
        at.get("terminationGracePeriodSeconds").required("");
    }
    let around =
        Around { spec: at.clone(), volumes: volumes::volumes(at, owner.pod_name), claims: claim_names(at) };
    resource_claims(&at.get("resourceClaims"));
    container::containers(&around);
    container::init_containers(&around);
    container::ephemeral_containers(&around);
    pod_level(at);
    host_network(at, owner);
    at.get("restartPolicy").need_one_of(&["Always", "OnFailure", "Never"]);
    at.get("dnsPolicy").need_one_of(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    labels::labels(&at.get("nodeSelector"));
    security::pod(at);
    if at.get("shareProcessNamespace").bool() && at.get("hostPID").bool() {
        at.get("shareProcessNamespace").invalid("ShareProcessNamespace and HostPID cannot both be enabled");
    }
    placement::affinity(&at.get("affinity"));
    dns_config(at);
    for gate in at.get("readinessGates").items() {
        labels::key(&gate.get("conditionType"));
    }
    scheduling_gates(&at.get("schedulingGates"));
    placement::spread(&at.get("topologySpreadConstraints"));
    host_users(at);
    host_name(at);
    names_and_numbers(at);
    os(at);
    file_keys(at);
}

fn claim_names<'a>(spec: &At<'a>) -> Vec<&'a str> {
    let names = spec.get("resourceClaims").items().map(|c| c.get("name").str()).filter(|n| !n.is_empty());
    names.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

fn resource_claims(list: &At<'_>) {
    let mut seen = HashSet::new();
    for at in list.items() {
        let name = at.get("name");
        if name.need() {
            if seen.insert(name.str()) {
                name.text(names::dns1123_label);
            } else {
                name.duplicate();
            }
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"].map(|field| at.get(field));
        let given = sources.iter().filter(|s| s.present()).count();
        let shown = at.value().cloned().unwrap_or_default();
        if given == 2 {
            at.invalid_as(
                shown,
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            );
        } else if given == 0 {
            at.invalid_as(shown, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`");
        }
        sources.iter().for_each(|source| source.text(names::dns1123_subdomain));
    }
}

/// Resources of the pod as a whole.
fn pod_level(spec: &At<'_>) {
    let at = spec.get("resources");
    let Some(value) = spec.value().filter(|_| at.present()) else { return };
    if spec.at("os.name").str() == "windows" {
        return at.forbidden("may not be set for a windows pod");
    }
    if at.get("claims").present() {
        at.get("claims").forbidden("claims may not be set for Resources at pod-level");
        for request in at.get("claims").items().map(|c| c.get("request")).filter(|r| !r.is_empty()) {
            request.text(names::dns1123_label);
        }
    }
    amounts::requirements(&at, |place, name| {
        if amounts::name(place, name) && !matches!(name, "cpu" | "memory") && !amounts::is_huge_pages(name) {
            place.push(FieldError::not_supported(place.path(), name, &["cpu", "hugepages-", "memory"]));
        }
    });
    for (name, sum) in resources::effective(value, "requests") {
        let place = at.get("requests").key(&name);
        if let Some(have) = amounts::amount(&place).filter(|have| sum > *have) {
            place.invalid_as(
                amounts::shown(have),
                format!("must be greater than or equal to aggregate container requests of {sum}"),
            );
        }
    }
    for (i, container) in spec.get("containers").items().enumerate() {
        for (name, place) in container.at("resources.limits").entries() {
            let (limit, pod) = (amounts::amount(&place), amounts::amount(&at.get("limits").key(name)));
            if let (Some(limit), Some(pod)) = (limit, pod)
                && limit > pod
            {
                let path = at.path().child("containers").index(i).key(name).child("limits");
                at.push(FieldError::invalid(
                    &path,
                    amounts::shown(limit),
                    format!("must be less than or equal to pod limits of {pod}"),
                ));
            }
        }
    }
}

fn host_network(spec: &At<'_>, owner: Owner<'_>) {
    if !spec.get("hostNetwork").bool() {
        return;
    }
    for port in spec.get("containers").items().flat_map(|c| c.get("ports").items()) {
        let (host, own) =
            (port.get("hostPort").int().unwrap_or(0), port.get("containerPort").int().unwrap_or(0));
        if (owner.pod_name.is_some() || host != 0) && host != own {
            port.get("hostPort").invalid_as(host, "must match `containerPort` when `hostNetwork` is true");
        }
    }
}

fn dns_config(spec: &At<'_>) {
    let at = spec.get("dnsConfig");
    let servers = at.get("nameservers");
    if spec.is("dnsPolicy", "None") {
        if !at.present() {
            return at.required("must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if servers.is_empty() {
            return servers.required("must provide at least one DNS nameserver when `dnsPolicy` is None");
        }
    }
    if servers.array().len() > 3 {
        servers.invalid("must not have more than 3 nameservers");
    }
    servers.items().for_each(|server| ip::address(&server, &[]));
    let searches = at.get("searches");
    if searches.array().len() > 32 {
        searches.invalid("must not have more than 32 search paths");
    }
    if searches.strings().join(" ").len() > 2048 {
        searches.invalid("must not have more than 2048 characters (including spaces) in the search list");
    }
    for search in searches.items().filter(|s| s.str() != ".") {
        let name = search.str().strip_suffix('.').unwrap_or_else(|| search.str());
        text::subdomain_with_underscore(name).into_iter().for_each(|error| search.invalid_as(name, error));
    }
    for option in at.get("options").items().filter(|o| o.get("name").is_empty()) {
        option.required("must not be empty");
    }
}

fn scheduling_gates(list: &At<'_>) {
    let mut seen = HashSet::new();
    for at in list.items() {
        let name = at.get("name").str();
        names::qualified_name(name).into_iter().for_each(|error| at.invalid_as(name, error));
        if !seen.insert(name) {
            at.push(FieldError::duplicate(at.path(), name));
        }
    }
}

fn host_users(spec: &At<'_>) {
    if spec.get("hostUsers").value() != Some(&Value::Bool(false)) {
        return;
    }
    // Upstream writes these two names with a capital, and forbids the host's network.
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.get(field).bool() {
            spec.get(shown).forbidden("when `hostUsers` is false");
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.get(list).items().filter(|c| !c.get("volumeDevices").is_empty()) {
            container.get("volumeDevices").forbidden("when `hostUsers` is false");
        }
    }
}

fn host_name(spec: &At<'_>) {
    let at = spec.get("hostnameOverride");
    if !at.present() {
        return;
    }
    if spec.get("setHostnameAsFQDN").bool() {
        at.forbidden("may not be specified when setHostnameAsFQDN is true");
    }
    if spec.get("hostNetwork").bool() {
        at.forbidden("may not be specified when hostNetwork is true");
    }
    if at.str().len() > 64 {
        at.push(FieldError::too_long(at.path(), 64));
    }
    at.text(names::dns1123_subdomain);
}

fn names_and_numbers(at: &At<'_>) {
    let filled = |field: &str| Some(at.get(field)).filter(|f| !f.is_empty());
    for (field, check) in [
        ("serviceAccountName", names::dns1123_subdomain as fn(&str) -> Vec<String>),
        ("nodeName", names::dns1123_subdomain),
    ] {
        if let Some(place) = filled(field) {
            place.text(check);
        }
    }
    at.get("activeDeadlineSeconds").range(1, i64::from(i32::MAX));
    for field in ["hostname", "subdomain"] {
        if let Some(place) = filled(field) {
            place.text(names::dns1123_label);
        }
    }
    topology::tolerations(&at.get("tolerations"));
    for alias in at.get("hostAliases").items() {
        ip::address(&alias.get("ip"), &[]);
        alias.get("hostnames").items().for_each(|name| name.text(names::dns1123_subdomain));
    }
    if let Some(class) = filled("priorityClassName") {
        class.text(names::dns1123_subdomain);
    }
    at.get("runtimeClassName").text(names::dns1123_subdomain);
    if at.get("preemptionPolicy").present() {
        at.get("preemptionPolicy").need_one_of(&["PreemptLowerPriority", "Never"]);
    }
    let overhead = at.get("overhead");
    for (name, _) in overhead.entries() {
        let place = overhead.get("limits").key(name).holding(&overhead.key(name));
        amounts::container_name(&place, name);
        amounts::value(&place, name);
    }
}

fn os(spec: &At<'_>) {
    let at = spec.get("os");
    if !at.present() {
        return;
    }
    let name = at.get("name");
    match name.str() {
        "" => name.required(""),
        "linux" => {
            let contexts = ["containers", "initContainers", "ephemeralContainers"]
                .iter()
                .flat_map(|l| spec.get(l).items());
            for context in contexts.map(|c| c.get("securityContext")).chain([spec.get("securityContext")]) {
                if context.get("windowsOptions").present() {
                    context.get("windowsOptions").forbidden("windows options cannot be set for a linux pod");
                }
            }
        }
        "windows" => windows(spec),
        other => at.push(FieldError::not_supported(at.path(), other, &["linux", "windows"])),
    }
}

const NOT_WINDOWS: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
];

fn windows(spec: &At<'_>) {
    let refuse = |at: At<'_>| {
        if at.present() {
            at.forbidden("cannot be set for a windows pod");
        }
    };
    let context = spec.get("securityContext");
    NOT_WINDOWS.iter().for_each(|field| refuse(context.get(field)));
    refuse(spec.get("hostUsers"));
    for field in ["hostPID", "hostIPC"] {
        if spec.get(field).bool() {
            spec.get(field).forbidden("cannot be set for a windows pod");
        }
    }
    refuse(spec.get("shareProcessNamespace"));
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for context in spec.get(list).items().map(|c| c.get("securityContext")) {
            NOT_WINDOWS.iter().for_each(|field| refuse(context.get(field)));
        }
    }
}

/// Variables from files come from volumes that containers can write.
fn file_keys(spec: &At<'_>) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for var in spec.get(list).items().flat_map(|c| c.get("env").items()) {
            let reference = var.at("valueFrom.fileKeyRef");
            if !reference.present() {
                continue;
            }
            let name = reference.get("volumeName");
            match spec.get("volumes").items().find(|v| v.is("name", name.str())) {
                None => name.push(FieldError::not_found(name.path(), name.str())),
                Some(volume) if !volume.get("emptyDir").present() => {
                    name.invalid("referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    }
}
