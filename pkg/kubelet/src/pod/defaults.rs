//! Defaults the API server would have set; static pods get them here.

use k8s_openapi::api::core::v1::{
    Container, HTTPGetAction, Pod, PodSecurityContext, PodSpec, Probe, ResourceRequirements, Toleration,
    Volume,
};

/// Sets upstream's v1 defaults on a pod read from a manifest.
pub fn apply_defaults(pod: &mut Pod) {
    let Some(spec) = pod.spec.as_mut() else { return };
    spec_defaults(spec);
    let host_network = spec.host_network == Some(true);
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        container_defaults(container, host_network);
    }
    for volume in spec.volumes.iter_mut().flatten() {
        volume_defaults(volume);
    }
}

/// The toleration that keeps static pods through node problems.
pub fn tolerate_no_execute(spec: &mut PodSpec) {
    let toleration = Toleration {
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        ..Toleration::default()
    };
    let list = spec.tolerations.get_or_insert_with(Vec::new);
    if !list.contains(&toleration) {
        list.push(toleration);
    }
}

fn text(slot: &mut Option<String>, value: &str) {
    slot.get_or_insert_with(|| value.to_owned());
}

fn spec_defaults(spec: &mut PodSpec) {
    text(&mut spec.restart_policy, "Always");
    text(&mut spec.dns_policy, "ClusterFirst");
    text(&mut spec.scheduler_name, "default-scheduler");
    spec.termination_grace_period_seconds.get_or_insert(30);
    spec.enable_service_links.get_or_insert(true);
    spec.security_context.get_or_insert_with(PodSecurityContext::default);
}

fn container_defaults(container: &mut Container, host_network: bool) {
    text(&mut container.termination_message_path, "/dev/termination-log");
    text(&mut container.termination_message_policy, "File");
    let image = container.image.clone().unwrap_or_default();
    text(&mut container.image_pull_policy, pull_policy_for(&image));
    if let Some(resources) = container.resources.as_mut() {
        requests_from_limits(resources);
    }
    for port in container.ports.iter_mut().flatten() {
        text(&mut port.protocol, "TCP");
        if host_network && port.host_port.unwrap_or(0) == 0 {
            port.host_port = Some(port.container_port);
        }
    }
    let probes =
        [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe];
    for probe in probes.into_iter().flatten() {
        probe_defaults(probe);
    }
    if let Some(lifecycle) = container.lifecycle.as_mut() {
        for handler in [&mut lifecycle.post_start, &mut lifecycle.pre_stop].into_iter().flatten() {
            if let Some(get) = handler.http_get.as_mut() {
                http_defaults(get);
            }
        }
    }
}

/// `Always` for `latest` or no tag, `IfNotPresent` otherwise.
#[must_use]
pub fn pull_policy_for(image: &str) -> &'static str {
    let last = image.rsplit('/').next().unwrap_or(image);
    let untagged = !last.contains(':') && !last.contains('@');
    if untagged || last.ends_with(":latest") { "Always" } else { "IfNotPresent" }
}

fn requests_from_limits(resources: &mut ResourceRequirements) {
    if let Some(limits) = resources.limits.clone() {
        let requests = resources.requests.get_or_insert_with(Default::default);
        for (name, value) in limits {
            requests.entry(name).or_insert(value);
        }
    }
}

fn probe_defaults(probe: &mut Probe) {
    probe.timeout_seconds.get_or_insert(1);
    probe.period_seconds.get_or_insert(10);
    probe.success_threshold.get_or_insert(1);
    probe.failure_threshold.get_or_insert(3);
    if let Some(get) = probe.http_get.as_mut() {
        http_defaults(get);
    }
}

fn http_defaults(get: &mut HTTPGetAction) {
    if get.path.as_deref().unwrap_or_default().is_empty() {
        get.path = Some("/".to_owned());
    }
    text(&mut get.scheme, "HTTP");
}

fn volume_defaults(volume: &mut Volume) {
    const MODE: i32 = 0o644;
    if let Some(source) = volume.secret.as_mut() {
        source.default_mode.get_or_insert(MODE);
    }
    if let Some(source) = volume.config_map.as_mut() {
        source.default_mode.get_or_insert(MODE);
    }
    if let Some(source) = volume.downward_api.as_mut() {
        source.default_mode.get_or_insert(MODE);
    }
    if let Some(source) = volume.projected.as_mut() {
        source.default_mode.get_or_insert(MODE);
        for token in source.sources.iter_mut().flatten().filter_map(|s| s.service_account_token.as_mut()) {
            token.expiration_seconds.get_or_insert(3600);
        }
    }
    if let Some(source) = volume.host_path.as_mut() {
        text(&mut source.type_, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_policy_follows_tag() {
        assert_eq!(pull_policy_for("busybox"), "Always");
        assert_eq!(pull_policy_for("host:5000/busybox"), "Always");
        assert_eq!(pull_policy_for("busybox:latest"), "Always");
        assert_eq!(pull_policy_for("host:5000/busybox:1.36"), "IfNotPresent");
        assert_eq!(pull_policy_for("busybox@sha256:0123"), "IfNotPresent");
    }

    #[test]
    fn host_network_ports_are_host_ports() {
        let mut pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a"},
            "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "x:1", "ports": [{"containerPort": 80}]}]}
        }))
        .unwrap();
        apply_defaults(&mut pod);
        let port = &pod.spec.unwrap().containers[0].ports.as_ref().unwrap()[0].clone();
        assert_eq!(port.host_port, Some(80));
        assert_eq!(port.protocol.as_deref(), Some("TCP"));
    }
}
