//! Defaults of a pod's spec, shared by Pod and by every pod template.

use serde_json::{Value, json};

use crate::kinds::defaults::{
    Lit::{B, I, Map as EmptyMap, S},
    Object,
    Rule::{self, Amounts, Each, In, Nil, Run, Zero},
    fill, map_mut, text,
};

const CONTAINERS: &[&str] = &["containers", "initContainers", "ephemeralContainers"];
const PROBES: &[&str] = &["livenessProbe", "readinessProbe", "startupProbe"];

const FIELD_REF: &[Rule] = &[Zero("apiVersion", S("v1"))];
// Fields behind features that are off in this release are not kept: `protocol` here, `stopSignal` of lifecycles.
const HTTP_GET: &[Rule] =
    &[Zero("path", S("/")), Zero("scheme", S("HTTP")), Run(|action| drop(action.remove("protocol")))];

const PROBE: &[Rule] = &[
    Zero("timeoutSeconds", I(1)),
    Zero("periodSeconds", I(10)),
    Zero("successThreshold", I(1)),
    Zero("failureThreshold", I(3)),
    In(&["httpGet"], HTTP_GET),
    In(&["grpc"], &[Nil("service", S(""))]),
];

const CONTAINER: &[Rule] = &[
    Run(image_pull_policy),
    Zero("terminationMessagePath", S("/dev/termination-log")),
    Zero("terminationMessagePolicy", S("File")),
    Each(&["ports"], &[Zero("protocol", S("TCP"))]),
    Each(
        &["env"],
        &[In(
            &["valueFrom"],
            &[
                In(&["fieldRef"], FIELD_REF),
                In(&["resourceFieldRef"], &[Nil("divisor", S("0"))]),
                In(&["fileKeyRef"], &[Nil("optional", B(false))]),
            ],
        )],
    ),
    In(&["resources"], &[Amounts(&["limits", "requests"])]),
    In(PROBES, PROBE),
    In(&["lifecycle"], &[Run(|lifecycle| drop(lifecycle.remove("stopSignal")))]),
    In(&["lifecycle"], &[In(&["postStart", "preStop"], &[In(&["httpGet"], HTTP_GET)])]),
];

const ITEMS: &[Rule] = &[Each(
    &["items"],
    &[In(&["fieldRef"], FIELD_REF), In(&["resourceFieldRef"], &[Nil("divisor", S("0"))])],
)];

const VOLUME: &[Rule] = &[
    Run(volume_source),
    In(&["secret", "configMap"], &[Nil("defaultMode", I(0o644))]),
    In(&["downwardAPI"], &[Nil("defaultMode", I(0o644))]),
    In(&["downwardAPI"], ITEMS),
    In(
        &["projected"],
        &[
            Nil("defaultMode", I(0o644)),
            Each(
                &["sources"],
                &[
                    In(&["downwardAPI"], ITEMS),
                    In(&["serviceAccountToken"], &[Nil("expirationSeconds", I(3600))]),
                    In(&["podCertificate"], &[Nil("maxExpirationSeconds", I(86400))]),
                ],
            ),
        ],
    ),
    In(&["hostPath"], &[Nil("type", S(""))]),
    In(&["iscsi"], &[Zero("iscsiInterface", S("default"))]),
    In(
        &["rbd"],
        &[Zero("pool", S("rbd")), Zero("user", S("admin")), Zero("keyring", S("/etc/ceph/keyring"))],
    ),
    In(&["azureDisk"], AZURE_DISK),
    In(&["scaleIO"], &[Zero("storageMode", S("ThinProvisioned")), Zero("fsType", S("xfs"))]),
    In(&["ephemeral"], &[In(&["volumeClaimTemplate"], &[In(&["spec"], CLAIM_SPEC)])]),
    Run(image_volume),
];

/// Defaults of an Azure disk, as a volume and as a persistent volume.
pub(crate) const AZURE_DISK: &[Rule] = &[
    Nil("cachingMode", S("ReadWrite")),
    Nil("fsType", S("ext4")),
    Nil("readOnly", B(false)),
    Nil("kind", S("Shared")),
];

/// Defaults of a claim's spec.
pub(crate) const CLAIM_SPEC: &[Rule] =
    &[Nil("volumeMode", S("Filesystem")), In(&["resources"], &[Amounts(&["limits", "requests"])])];

/// Defaults of a pod's spec wherever it stands.
pub(crate) const POD_SPEC: &[Rule] = &[
    Run(switched_off),
    Run(service_account),
    Zero("dnsPolicy", S("ClusterFirst")),
    Zero("restartPolicy", S("Always")),
    Nil("securityContext", EmptyMap),
    Nil("terminationGracePeriodSeconds", I(30)),
    Zero("schedulerName", S("default-scheduler")),
    Each(&["volumes"], VOLUME),
    Each(CONTAINERS, CONTAINER),
    In(&["resources"], &[Amounts(&["limits", "requests"])]),
    Amounts(&["overhead"]),
];

/// Defaults of `template`, a pod template.
pub(crate) const TEMPLATE: &[Rule] = &[In(&["template"], &[In(&["spec"], POD_SPEC)])];

/// Fields of features that are off by default go, as upstream drops them.
fn switched_off(spec: &mut Object) {
    spec.remove("schedulingGroup");
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mounts = container.get_mut("volumeMounts").and_then(Value::as_array_mut);
            for mount in mounts.into_iter().flatten().filter_map(Value::as_object_mut) {
                mount.remove("bindMountOptions");
            }
        }
    }
}

/// Defaults of a Pod beyond its spec's, which templates do not get.
pub(crate) const POD: &[Rule] = &[
    In(&["spec"], POD_SPEC),
    In(
        &["spec"],
        &[
            Run(negative_grace),
            Each(&["containers", "initContainers"], &[In(&["resources"], &[Run(requests_from_limits)])]),
            Nil("enableServiceLinks", B(true)),
            Run(host_network_ports),
        ],
    ),
    In(&["status"], &[Run(pod_ips)]),
];

/// The pull policy follows the tag: `latest`, named or implied, is pulled always.
fn image_pull_policy(container: &mut Object) {
    if text(container, "imagePullPolicy").is_empty() {
        let policy = pull_policy(text(container, "image"));
        container.insert("imagePullPolicy".to_owned(), policy.into());
    }
}

fn image_volume(volume: &mut Object) {
    if let Some(image) = volume.get_mut("image").and_then(Value::as_object_mut)
        && text(image, "pullPolicy").is_empty()
    {
        let policy = pull_policy(text(image, "reference"));
        image.insert("pullPolicy".to_owned(), policy.into());
    }
}

fn pull_policy(image: &str) -> &'static str {
    if image_tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// The tag of an image reference: what follows the last colon of the last path element. Without tag and digest it
/// is `latest`; a reference that does not parse has none.
fn image_tag(image: &str) -> Option<&str> {
    let (name, digest) = image.split_once('@').map_or((image, None), |(n, d)| (n, Some(d)));
    if name.is_empty() || name.contains(char::is_whitespace) || name.ends_with([':', '/']) {
        return None;
    }
    let last = name.rsplit('/').next().unwrap_or(name);
    let tag = last.split_once(':').map(|(_, tag)| tag);
    let path = name.strip_suffix(last).unwrap_or_default();
    let host = path.split('/').next().unwrap_or_default();
    let is_host =
        host.contains(['.', ':']) || host == "localhost" || host.chars().any(|c| c.is_ascii_uppercase());
    let repository = if is_host { name.get(host.len()..).unwrap_or_default() } else { name };
    let repository = repository.strip_suffix(last).unwrap_or_default();
    let repo_last = last.split(':').next().unwrap_or_default();
    if repository.chars().chain(repo_last.chars()).any(|c| c.is_ascii_uppercase()) {
        return None;
    }
    match (tag, digest) {
        (Some(tag), _) => Some(tag),
        (None, Some(_)) => Some(""),
        (None, None) => Some("latest"),
    }
}

fn volume_source(volume: &mut Object) {
    if volume.iter().all(|(field, value)| field == "name" || value.is_null()) {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
}

/// `serviceAccount` is an older name of `serviceAccountName`; both are kept equal.
fn service_account(spec: &mut Object) {
    if text(spec, "serviceAccountName").is_empty() {
        let old = text(spec, "serviceAccount").to_owned();
        if old.is_empty() {
            return;
        }
        spec.insert("serviceAccountName".to_owned(), old.into());
    }
    let name = text(spec, "serviceAccountName").to_owned();
    spec.insert("serviceAccount".to_owned(), name.into());
}

/// With the host's network, container ports are host ports.
fn host_network_ports(spec: &mut Object) {
    if spec.get("hostNetwork") != Some(&Value::Bool(true)) {
        return;
    }
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                let Some(port) = port.as_object_mut() else { continue };
                if port.get("hostPort").is_none_or(crate::kinds::defaults::is_zero)
                    && let Some(number) = port.get("containerPort").cloned()
                {
                    port.insert("hostPort".to_owned(), number);
                }
            }
        }
    }
}

fn negative_grace(spec: &mut Object) {
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|n| n < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
}

/// A limit without a request is a request, too.
fn requests_from_limits(resources: &mut Object) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let requests = map_mut(resources, "requests");
    for (name, amount) in limits {
        fill(requests, &name, amount);
    }
}

/// `podIP` and the first of `podIPs` are the same; `podIP` decides.
fn pod_ips(status: &mut Object) {
    let ip = text(status, "podIP").to_owned();
    let first = status.get("podIPs").and_then(|ips| ips.get(0)?.get("ip")?.as_str()).map(str::to_owned);
    match first {
        Some(first) if ip.is_empty() => drop(status.insert("podIP".to_owned(), first.into())),
        Some(first) if first == ip => {}
        _ if ip.is_empty() => {}
        _ => drop(status.insert("podIPs".to_owned(), json!([{"ip": ip}]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::defaults::{absent, apply};

    #[test]
    fn tags_decide_the_pull_policy() {
        for (image, want) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.27", "IfNotPresent"),
            ("localhost:5000/nginx", "Always"),
            ("reg.example:5000/a/b:v1", "IfNotPresent"),
            ("nginx@sha256:0123", "IfNotPresent"),
            ("nginx:", "IfNotPresent"),
            ("", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), want, "{image}");
        }
    }

    #[test]
    fn a_bare_spec_gets_upstreams_defaults() {
        let mut spec = json!({"containers": [{"name": "a", "image": "b:1",
            "livenessProbe": {"httpGet": {"port": 80}}}], "volumes": [{"name": "v"}]});
        apply(POD_SPEC, spec.as_object_mut().unwrap());
        assert_eq!(spec["volumes"][0], json!({"name": "v", "emptyDir": {}}));
        assert_eq!(spec["containers"][0]["livenessProbe"]["httpGet"]["scheme"], "HTTP");
        assert_eq!(spec["containers"][0]["livenessProbe"]["periodSeconds"], 10);
        assert_eq!(spec["securityContext"], json!({}));
        assert!(absent(spec.as_object().unwrap(), "enableServiceLinks"));
    }
}
