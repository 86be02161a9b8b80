//! Containers of every sort: regular, init, sidecar, ephemeral.

use std::collections::HashSet;

use copepod_api::{FieldError, names};
use serde_json::Value;

use super::{mounts, probes, security};
use crate::kinds::at::At;
use crate::kinds::checks::{amounts, text};
use crate::kinds::pod::env;

/// What containers are checked against: the spec around them.
#[derive(Debug)]
pub(crate) struct Around<'a> {
    /// The pod's spec.
    pub(crate) spec: At<'a>,
    /// The sound volumes by name.
    pub(crate) volumes: mounts::Volumes<'a>,
    /// The names of the pod's resource claims.
    pub(crate) claims: Vec<&'a str>,
}

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const RESTARTS: &[&str] = &["Always", "Never", "OnFailure"];

/// Regular containers.
pub(crate) fn containers(around: &Around<'_>) {
    let list = around.spec.get("containers");
    if list.is_empty() {
        return list.required("");
    }
    let mut seen = HashSet::new();
    for at in list.items() {
        common(&at, around);
        if !seen.insert(at.get("name").str()) {
            at.get("name").duplicate();
        }
        probes::lifecycle(&at.get("lifecycle"), around);
        probes::all(&at, around);
        restart_rules(&at);
    }
    host_ports(&list, list.items());
}

/// Init containers and sidecars.
pub(crate) fn init_containers(around: &Around<'_>) {
    let list = around.spec.get("initContainers");
    let mut seen: HashSet<&str> =
        around.spec.get("containers").items().map(|c| c.get("name").str()).collect();
    for at in list.items() {
        common(&at, around);
        let sidecar = at.is("restartPolicy", "Always");
        restart_rules(&at);
        let name = at.get("name");
        if !seen.insert(name.str()) && !name.is_empty() {
            name.duplicate();
        }
        host_ports(&list, std::iter::once(at.clone()));
        if sidecar {
            probes::lifecycle(&at.get("lifecycle"), around);
            probes::all(&at, around);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if at.get(field).present() {
                    at.get(field)
                        .forbidden("may not be set for init containers without restartPolicy=Always");
                }
            }
            for policy in at.get("resizePolicy").items().filter(|p| p.is("restartPolicy", "RestartContainer"))
            {
                policy
                    .get("restartPolicy")
                    .invalid("must not be set to 'RestartContainer' for non-sidecar initContainers");
            }
        }
    }
}

/// Fields that ephemeral containers do not have.
const NOT_EPHEMERAL: &[&str] = &[
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Ephemeral containers.
pub(crate) fn ephemeral_containers(around: &Around<'_>) {
    let names = |list: &str| around.spec.get(list).items().map(|c| c.get("name").str()).collect::<Vec<_>>();
    let others: Vec<&str> = [names("containers"), names("initContainers")].concat();
    let mut seen: HashSet<&str> = others.iter().copied().collect();
    for at in around.spec.get("ephemeralContainers").items() {
        common(&at, around);
        padded_image(&at);
        if !seen.insert(at.get("name").str()) {
            at.get("name").duplicate();
        }
        let target = at.get("targetContainerName");
        if !target.is_empty() && !others.contains(&target.str()) {
            target.not_found();
        }
        for field in NOT_EPHEMERAL.iter().filter(|f| !at.get(f).is_empty()) {
            at.get(field).forbidden("cannot be set for an Ephemeral Container");
        }
        for mount in at.get("volumeMounts").items() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.get(field).is_empty() {
                    mount.get(field).forbidden("cannot be set for an Ephemeral Container");
                }
            }
        }
    }
}

/// What pods, unlike templates, refuse in an image.
pub(crate) fn padded_image(at: &At<'_>) {
    let image = at.get("image");
    if image.str().trim() != image.str() {
        image.invalid("must not have leading or trailing whitespace");
    }
}

fn common(at: &At<'_>, around: &Around<'_>) {
    if at.get("name").need() {
        at.get("name").text(names::dns1123_label);
    }
    at.get("image").need();
    at.get("terminationMessagePolicy").need_one_of(&["File", "FallbackToLogsOnError"]);
    ports(&at.get("ports"));
    env::vars(&at.get("env"));
    env::from(&at.get("envFrom"));
    mounts::mounts(at, &around.volumes);
    mounts::devices(at, &around.volumes);
    at.get("imagePullPolicy").need_one_of(PULL_POLICIES);
    let resources = at.get("resources");
    amounts::requirements(&resources, amounts::container_name);
    claims(&resources.get("claims"), &around.claims);
    resize_policy(&at.get("resizePolicy"), around);
    security::container(&at.get("securityContext"), &around.spec);
}

fn ports(list: &At<'_>) {
    let mut seen = HashSet::new();
    for at in list.items() {
        let name = at.get("name");
        if !name.is_empty() {
            let texts = text::port_name(name.str());
            if texts.is_empty() && !seen.insert(name.str()) {
                name.duplicate();
            }
            name.invalid_all(texts);
        }
        match at.get("containerPort").int() {
            None | Some(0) => at.get("containerPort").required(""),
            Some(_) => text::port(&at.get("containerPort")),
        }
        if at.get("hostPort").int().is_some_and(|n| n != 0) {
            text::port(&at.get("hostPort"));
        }
        at.get("protocol").need_one_of(PROTOCOLS);
    }
}

/// A host port is used once.
fn host_ports<'a>(list: &At<'a>, containers: impl Iterator<Item = At<'a>>) {
    let mut seen = HashSet::new();
    for (index, container) in containers.enumerate() {
        let base = list.named(list.path().index(index)).get("ports");
        for (i, port) in container.get("ports").items().enumerate() {
            let Some(number) = port.get("hostPort").int().filter(|n| *n != 0) else { continue };
            let key = format!("{}/{}/{number}", port.get("protocol").str(), port.get("hostIP").str());
            if !seen.insert(key.clone()) {
                let path = base.path().index(i).child("hostPort");
                list.push(FieldError::duplicate(&path, key));
            }
        }
    }
}

fn restart_rules(at: &At<'_>) {
    let (policy, rules) = (at.get("restartPolicy"), at.get("restartPolicyRules"));
    if policy.present() {
        policy.one_of(RESTARTS);
    } else if !rules.is_empty() {
        policy.required("must specify restartPolicy when restart rules are used");
    }
    if rules.array().len() > 20 {
        rules.push(FieldError::too_many(rules.path(), rules.array().len(), 20));
    }
    for rule in rules.items() {
        let actions = &["Restart", "RestartAllContainers"];
        if !actions.contains(&rule.get("action").str()) {
            rule.get("action").not_supported(actions);
        }
        let codes = rule.get("exitCodes");
        if !codes.present() {
            codes.required("must be specified");
            continue;
        }
        let operators = &["In", "NotIn"];
        if !operators.contains(&codes.get("operator").str()) {
            codes.get("operator").not_supported(operators);
        }
        let values = codes.get("values");
        if values.array().len() > 255 {
            values.push(FieldError::too_many(values.path(), values.array().len(), 255));
        }
    }
}

fn resize_policy(list: &At<'_>, around: &Around<'_>) {
    let mut seen = HashSet::new();
    for (i, at) in list.items().enumerate() {
        let (resource, restart) = (at.get("resourceName"), at.get("restartPolicy"));
        if !seen.insert(resource.str()) {
            list.push(FieldError::duplicate(&list.path().index(i), resource.str()));
        }
        list.with(resource.value()).need_one_of(&["cpu", "memory"]);
        list.with(restart.value()).need_one_of(&["NotRequired", "RestartContainer"]);
        if around.spec.is("restartPolicy", "Never") && restart.str() != "NotRequired" {
            list.invalid_as(restart.str(), "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}

/// Claims of a container name claims of the pod.
fn claims(list: &At<'_>, known: &[&str]) {
    let mut seen: HashSet<String> = HashSet::new();
    for at in list.items() {
        let name = at.get("name").str();
        if name.is_empty() {
            at.required("");
            continue;
        }
        let request = at.get("request");
        let key = if request.is_empty() { name.to_owned() } else { format!("{name}/{}", request.str()) };
        if !request.is_empty() {
            request.text(names::dns1123_label);
        }
        let covered = seen.contains(name)
            || (request.is_empty() && seen.iter().any(|k| k.starts_with(&format!("{name}/"))));
        if covered || seen.contains(&key) {
            at.push(FieldError::duplicate(at.path(), key.clone()));
        }
        seen.insert(key);
        if !known.contains(&name) {
            let mut error = FieldError::not_found(at.path(), Value::from(name));
            error.detail = "must be one of the names in pod.spec.resourceClaims".to_owned();
            error.detail += &if known.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", known.join(", "))
            };
            at.push(error);
        }
    }
}
