//! A container's CRI configuration.

use std::path::Path;

use copepod_cri::v1 as cri;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::security::{self, ImageUser, SecurityError};
use super::{labels, logs};
use crate::pod::resources;

/// Everything a container's configuration is made from.
#[derive(Debug)]
pub struct ContainerInput<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The container.
    pub container: &'a Container,
    /// Restarts before this run.
    pub restart_count: i32,
    /// Image reference that the pull returned.
    pub image_ref: String,
    /// The user the image names.
    pub image_user: ImageUser,
    /// Resolved variables.
    pub env: Vec<(String, String)>,
    /// Volume mounts, hosts file and termination log.
    pub mounts: Vec<cri::Mount>,
    /// Groups that volumes ask for.
    pub extra_groups: Vec<i64>,
    /// The pod's own user namespace.
    pub users: Option<cri::UserNamespace>,
    /// Container whose processes an ephemeral container sees.
    pub target: Option<String>,
    /// The node's memory, for oom_score_adj.
    pub memory_capacity: i64,
}

/// Renders the configuration.
///
/// # Errors
/// When its security settings cannot be applied.
pub fn render_container(
    input: ContainerInput<'_>,
    seccomp_root: &Path,
) -> Result<cri::ContainerConfig, SecurityError> {
    let ContainerInput { pod, container, .. } = input;
    let mut context = security::render_container_security(
        pod,
        container,
        &input.image_user,
        (&input.extra_groups, input.users.as_ref()),
        seccomp_root,
    )?;
    if let (Some(target), Some(options)) = (&input.target, context.namespace_options.as_mut())
        && options.pid() == cri::NamespaceMode::Container
    {
        options.set_pid(cri::NamespaceMode::Target);
        options.target_id.clone_from(target);
    }
    let expand_all = |list: &Option<Vec<String>>| -> Vec<String> {
        list.iter().flatten().map(|text| expand(text, &input.env)).collect()
    };
    let mut config = cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata {
            name: container.name.clone(),
            attempt: u32::try_from(input.restart_count).unwrap_or(0),
        }),
        image: Some(cri::ImageSpec {
            image: input.image_ref.clone(),
            user_specified_image: container.image.clone().unwrap_or_default(),
            ..Default::default()
        }),
        command: expand_all(&container.command),
        args: expand_all(&container.args),
        working_dir: container.working_dir.clone().unwrap_or_default(),
        labels: labels::container_labels(pod, container),
        annotations: labels::container_annotations(pod, container, input.restart_count),
        log_path: logs::container_log_path(&container.name, input.restart_count),
        stdin: container.stdin == Some(true),
        stdin_once: container.stdin_once == Some(true),
        tty: container.tty == Some(true),
        linux: Some(cri::LinuxContainerConfig {
            resources: Some(resources::container_limits(pod, container, input.memory_capacity)),
            security_context: Some(context),
        }),
        ..Default::default()
    };
    config.mounts = input.mounts;
    if let Some(users) = &input.users {
        // Files keep their owners as the pod sees them.
        for mount in config.mounts.iter_mut().filter(|m| m.image.is_none()) {
            mount.uid_mappings.clone_from(&users.uids);
            mount.gid_mappings.clone_from(&users.gids);
        }
    }
    config.envs =
        input.env.into_iter().map(|(key, value)| cri::KeyValue { key, value: value.into_bytes() }).collect();
    if let Some(signal) = container.lifecycle.as_ref().and_then(|l| l.stop_signal.as_deref()) {
        let signal = cri::Signal::from_str_name(&format!(
            "SIGNAL_{}",
            signal.replace('+', "PLUS").replace('-', "MINUS")
        ))
        .ok_or_else(|| SecurityError::Invalid(format!("unknown stop signal {signal}")))?;
        config.set_stop_signal(signal);
    }
    Ok(config)
}

/// Replaces `$(NAME)` by the variable's value; unknown names stay, `$$` is a dollar.
#[must_use]
pub fn expand(text: &str, env: &[(String, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let after = from.get(1..).unwrap_or_default();
        if let Some(next) = after.strip_prefix('$') {
            out.push('$');
            rest = next;
        } else if let Some((name, next)) = after.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match env.iter().rev().find(|(key, _)| key == name) {
                Some((_, value)) => out.push_str(value),
                None => out.push_str(&format!("$({name})")),
            }
            rest = next;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expansion_is_upstreams() {
        let env = [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "$(A)".to_owned())];
        for (text, expected) in [
            ("$(A)", "1"),
            ("x$(A)y$(B)", "x1y$(A)"),
            ("$(C) $$(A) $$$(A)", "$(C) $(A) $1"),
            ("$A $(A", "$A $(A"),
            ("cost $", "cost $"),
        ] {
            assert_eq!(expand(text, &env), expected, "{text}");
        }
    }

    #[test]
    fn signal_names_map() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {"containers": [{"name": "c", "image": "i", "lifecycle": {"stopSignal": "SIGRTMIN+3"}}]}
        }))
        .unwrap();
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let input = ContainerInput {
            pod: &pod,
            container,
            restart_count: 2,
            image_ref: "sha256:1".to_owned(),
            image_user: ImageUser::default(),
            env: Vec::new(),
            mounts: Vec::new(),
            extra_groups: Vec::new(),
            users: None,
            target: None,
            memory_capacity: 1 << 30,
        };
        let config = render_container(input, Path::new("/s")).unwrap();
        assert_eq!(config.stop_signal(), cri::Signal::Sigrtminplus3);
        assert_eq!(config.log_path, "c/2.log");
        assert_eq!(config.annotations[labels::RESTART_COUNT], "2");
        assert_eq!(config.labels[labels::POD_UID], "u");
    }
}
