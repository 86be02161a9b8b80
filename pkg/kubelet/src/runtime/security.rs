//! Security contexts: the pod's and the container's merged, in CRI's words.

use std::path::Path;

use copepod_cri::v1 as cri;
use cri::security_profile::ProfileType;
use k8s_openapi::api::core::v1::{
    AppArmorProfile, Container, Pod, PodSecurityContext, SELinuxOptions, SeccompProfile, SecurityContext,
};

use crate::pod::PodExt;

/// Why a container's security settings cannot be applied (`CreateContainerConfigError`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecurityError {
    /// runAsNonRoot contradicts the user it would run as; upstream's text.
    #[error("{0}")]
    NonRoot(String),
    /// Anything else; the text says what.
    #[error("{0}")]
    Invalid(String),
}

/// Paths hidden from containers with the default procMount.
const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
/// Paths read-only in them.
const READ_ONLY: &[&str] = &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// The user an image names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageUser {
    /// Numeric user.
    pub uid: Option<i64>,
    /// User name when it is not numeric.
    pub name: String,
}

/// One profile in CRI's form.
#[must_use]
pub fn profile(kind: ProfileType, path: &str) -> cri::SecurityProfile {
    cri::SecurityProfile { profile_type: kind.into(), localhost_ref: path.to_owned() }
}

/// SELinux options in CRI's form.
#[must_use]
pub fn selinux(options: &SELinuxOptions) -> cri::SeLinuxOption {
    cri::SeLinuxOption {
        user: options.user.clone().unwrap_or_default(),
        role: options.role.clone().unwrap_or_default(),
        r#type: options.type_.clone().unwrap_or_default(),
        level: options.level.clone().unwrap_or_default(),
    }
}

/// The pod's namespaces; `users` is its own user namespace when it has one.
#[must_use]
pub fn namespaces(pod: &Pod, users: Option<&cri::UserNamespace>) -> cri::NamespaceOption {
    let spec = pod.spec();
    let mode = |host: Option<bool>, other| if host == Some(true) { cri::NamespaceMode::Node } else { other };
    let pid = if spec.share_process_namespace == Some(true) {
        cri::NamespaceMode::Pod
    } else {
        cri::NamespaceMode::Container
    };
    cri::NamespaceOption {
        network: mode(spec.host_network, cri::NamespaceMode::Pod).into(),
        pid: mode(spec.host_pid, pid).into(),
        ipc: mode(spec.host_ipc, cri::NamespaceMode::Pod).into(),
        target_id: String::new(),
        userns_options: users.cloned(),
    }
}

/// fsGroup and supplemental groups, with the policy that merges them with the image's.
///
/// # Errors
/// For an unknown policy word.
pub fn supplemental_groups(
    pod: &Pod,
    extra: &[i64],
) -> Result<(Vec<i64>, cri::SupplementalGroupsPolicy), SecurityError> {
    let Some(context) = &pod.spec().security_context else {
        return Ok((extra.to_vec(), cri::SupplementalGroupsPolicy::Merge));
    };
    let mut groups: Vec<i64> = context.fs_group.into_iter().collect();
    groups.extend(context.supplemental_groups.iter().flatten());
    groups.extend(extra);
    let policy = match context.supplemental_groups_policy.as_deref() {
        None | Some("Merge") => cri::SupplementalGroupsPolicy::Merge,
        Some("Strict") => cri::SupplementalGroupsPolicy::Strict,
        Some(other) => {
            return Err(SecurityError::Invalid(format!("unsupported supplementalGroupsPolicy: {other}")));
        }
    };
    Ok((groups, policy))
}

/// The container's security context.
///
/// # Errors
/// When runAsNonRoot is broken or a profile is not usable.
pub fn render_container_security(
    pod: &Pod,
    container: &Container,
    image_user: &ImageUser,
    (extra_groups, users): (&[i64], Option<&cri::UserNamespace>),
    seccomp_root: &Path,
) -> Result<cri::LinuxContainerSecurityContext, SecurityError> {
    let pod_context = pod.spec().security_context.clone().unwrap_or_default();
    let own = container.security_context.clone().unwrap_or_default();
    verify_non_root(pod, container, &pod_context, &own, image_user)?;
    let run_as_user = own.run_as_user.or(pod_context.run_as_user);
    let (groups, policy) = supplemental_groups(pod, extra_groups)?;
    let unmasked = own.proc_mount.as_deref() == Some("Unmasked");
    let paths =
        |list: &[&str]| if unmasked { Vec::new() } else { list.iter().map(|p| (*p).to_owned()).collect() };
    let user = run_as_user.or(image_user.uid);
    Ok(cri::LinuxContainerSecurityContext {
        capabilities: own.capabilities.as_ref().map(|c| cri::Capability {
            add_capabilities: c.add.clone().unwrap_or_default(),
            drop_capabilities: c.drop.clone().unwrap_or_default(),
            add_ambient_capabilities: Vec::new(),
        }),
        privileged: own.privileged == Some(true),
        namespace_options: Some(namespaces(pod, users)),
        selinux_options: own.se_linux_options.as_ref().or(pod_context.se_linux_options.as_ref()).map(selinux),
        run_as_user: user.map(|value| cri::Int64Value { value }),
        run_as_group: own.run_as_group.or(pod_context.run_as_group).map(|value| cri::Int64Value { value }),
        run_as_username: if run_as_user.is_none() { image_user.name.clone() } else { String::new() },
        readonly_rootfs: own.read_only_root_filesystem == Some(true),
        supplemental_groups: groups,
        supplemental_groups_policy: policy.into(),
        no_new_privs: own.allow_privilege_escalation == Some(false),
        masked_paths: paths(MASKED),
        readonly_paths: paths(READ_ONLY),
        seccomp: Some(seccomp(
            own.seccomp_profile.as_ref().or(pod_context.seccomp_profile.as_ref()),
            seccomp_root,
        )?),
        apparmor: app_armor(own.app_armor_profile.as_ref().or(pod_context.app_armor_profile.as_ref())),
        ..Default::default()
    })
}

fn seccomp(chosen: Option<&SeccompProfile>, root: &Path) -> Result<cri::SecurityProfile, SecurityError> {
    let Some(chosen) = chosen else { return Ok(profile(ProfileType::Unconfined, "")) };
    match chosen.type_.as_str() {
        "RuntimeDefault" => Ok(profile(ProfileType::RuntimeDefault, "")),
        "Localhost" => {
            let name = chosen.localhost_profile.as_deref().unwrap_or_default();
            if name.is_empty() || name.split('/').any(|part| part == "..") {
                return Err(SecurityError::Invalid(
                    "localhostProfile must be set if seccompProfile type is Localhost.".to_owned(),
                ));
            }
            Ok(profile(ProfileType::Localhost, &root.join(name).display().to_string()))
        }
        _ => Ok(profile(ProfileType::Unconfined, "")),
    }
}

fn app_armor(chosen: Option<&AppArmorProfile>) -> Option<cri::SecurityProfile> {
    let chosen = chosen?;
    let name = chosen.localhost_profile.as_deref().unwrap_or_default();
    Some(match chosen.type_.as_str() {
        "Localhost" => profile(ProfileType::Localhost, name),
        "RuntimeDefault" => profile(ProfileType::RuntimeDefault, ""),
        _ => profile(ProfileType::Unconfined, ""),
    })
}

fn verify_non_root(
    pod: &Pod,
    container: &Container,
    pod_context: &PodSecurityContext,
    own: &SecurityContext,
    image: &ImageUser,
) -> Result<(), SecurityError> {
    if own.run_as_non_root.or(pod_context.run_as_non_root) != Some(true) {
        return Ok(());
    }
    let of = format!(
        "(pod: \"{}_{}({})\", container: {})",
        pod.name(),
        pod.namespace(),
        pod.uid(),
        container.name
    );
    let refuse = |text: String| Err(SecurityError::NonRoot(format!("{text} {of}")));
    match own.run_as_user.or(pod_context.run_as_user) {
        Some(0) => refuse("container's runAsUser breaks non-root policy".to_owned()),
        Some(_) => Ok(()),
        None if image.uid == Some(0) => {
            refuse("container has runAsNonRoot and image will run as root".to_owned())
        }
        None if image.uid.is_none() && !image.name.is_empty() => refuse(format!(
            "container has runAsNonRoot and image has non-numeric user ({}), cannot verify user is non-root",
            image.name
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(
        spec: serde_json::Value,
        image: &ImageUser,
    ) -> Result<cri::LinuxContainerSecurityContext, SecurityError> {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": spec
        }))
        .unwrap();
        render_container_security(
            &pod,
            &pod.spec().containers[0],
            image,
            (&[], None),
            Path::new("/k/seccomp"),
        )
    }

    #[test]
    fn container_wins_over_pod() {
        let context = render(
            serde_json::json!({
                "securityContext": {"runAsUser": 1000, "fsGroup": 7, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{"name": "c", "securityContext": {
                    "runAsUser": 2000, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]
            }),
            &ImageUser::default(),
        )
        .unwrap();
        assert_eq!(context.run_as_user.unwrap().value, 2000);
        assert_eq!(context.supplemental_groups, [7]);
        assert!(context.no_new_privs);
        assert_eq!(context.capabilities.unwrap().drop_capabilities, ["ALL"]);
        assert_eq!(context.seccomp.unwrap().profile_type(), ProfileType::RuntimeDefault);
        assert!(context.masked_paths.contains(&"/proc/kcore".to_owned()));
    }

    #[test]
    fn non_root_is_enforced_with_upstreams_words() {
        let spec = |user: serde_json::Value| serde_json::json!({"containers": [{"name": "c", "securityContext": {"runAsNonRoot": true, "runAsUser": user}}]});
        let root = ImageUser { uid: Some(0), name: String::new() };
        assert_eq!(
            render(spec(serde_json::Value::Null), &root).unwrap_err().to_string(),
            "container has runAsNonRoot and image will run as root (pod: \"p_d(u)\", container: c)"
        );
        let named = ImageUser { uid: None, name: "app".to_owned() };
        assert!(
            render(spec(serde_json::Value::Null), &named)
                .unwrap_err()
                .to_string()
                .contains("non-numeric user (app)")
        );
        assert!(render(spec(0.into()), &named).is_err());
        assert!(render(spec(5.into()), &root).is_ok());
    }
}
