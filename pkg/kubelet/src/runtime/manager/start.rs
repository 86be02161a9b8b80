//! Starting one container: image, configuration, create, start, postStart.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use copepod_cri::{CriError, v1 as cri};
use k8s_openapi::api::core::v1::{Container, Pod, VolumeMount};

use super::{PodRuntime, field_path};
use crate::pod::PodExt;
use crate::ports::{EventKind, SetupError};
use crate::runtime::container::{ContainerInput, render_container};
use crate::runtime::images::{ImageError, ReadyImage};
use crate::runtime::plan::KillReason;
use crate::runtime::{hooks, hosts, logs, view};
use crate::types::RuntimePod;

/// The sandbox containers are started in.
#[derive(Debug)]
pub(super) struct Sandbox {
    pub(super) id: String,
    pub(super) config: cri::PodSandboxConfig,
}

/// What the containers of one sync share.
pub(super) struct Run<'a> {
    pub(super) pod: &'a Pod,
    pub(super) state: &'a RuntimePod,
    pub(super) sandbox: &'a Sandbox,
    /// Container whose processes an ephemeral container sees.
    pub(super) target: Option<String>,
    /// What became of the images that are volumes, by the volume's name.
    pub(super) image_volumes: &'a HashMap<String, Result<ReadyImage, ImageError>>,
}

/// Why a container did not start.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) retry: Option<Duration>,
}

impl PodRuntime {
    pub(super) async fn start_container(&self, run: &Run<'_>, container: &Container) -> Result<(), Failure> {
        let Run { pod, state, sandbox, target, image_volumes } = run;
        let path = field_path(pod, &container.name);
        let event =
            |kind, reason: &str, text: &str| self.events.pod_event(pod, path.clone(), kind, reason, text);
        let fail = |reason, error: &dyn std::fmt::Display| {
            event(EventKind::Warning, "Failed", &format!("Error: {error}"));
            Failure { reason, message: error.to_string(), retry: None }
        };
        let image = self.images.ensure(pod, container, &sandbox.config).await.map_err(|error| {
            event(EventKind::Warning, "Failed", &format!("Error: {}", error.reason));
            Failure { reason: error.reason, message: error.message, retry: error.retry }
        })?;
        let mut volume_images = HashMap::new();
        for mount in container.volume_mounts.iter().flatten() {
            match image_volumes.get(&mount.name) {
                None => {}
                Some(Ok(image)) => drop(volume_images.insert(mount.name.as_str(), &image.image_ref)),
                Some(Err(error)) => {
                    event(EventKind::Warning, "Failed", &format!("Error: {}", error.reason));
                    let message = error.message.clone();
                    return Err(Failure { reason: error.reason, message, retry: error.retry });
                }
            }
        }
        let restart_count = match state.container(&container.name) {
            Some(last) => last.restart_count + 1,
            None => logs::restart_count_from_logs(&self.log_dir(pod, container)),
        };
        let input = self
            .container_input(pod, container, target.clone(), restart_count)
            .await
            .map_err(|error| fail("CreateContainerConfigError", &error))?;
        let input = ContainerInput { image_ref: image.image_ref, image_user: image.user, ..input };
        let mut input = input;
        for (mount, wanted) in input.mounts.iter_mut().zip(container.volume_mounts.iter().flatten()) {
            if let (Some(image), Some(found)) = (&mut mount.image, volume_images.get(wanted.name.as_str())) {
                image.user_specified_image = std::mem::replace(&mut image.image, (*found).clone());
            }
        }
        let config = render_container(input, &self.config.root_dir.join("seccomp"))
            .map_err(|error| fail("CreateContainerConfigError", &error))?;
        let id = self
            .runtime
            .create_container(&sandbox.id, config, sandbox.config.clone())
            .await
            .map_err(|error| fail("CreateContainerError", &error.message()))?;
        self.note_given(&id, container);
        event(EventKind::Normal, "Created", "Container created");
        self.runtime
            .start_container(&id)
            .await
            .map_err(|error| fail("RunContainerError", &error.message()))?;
        event(EventKind::Normal, "Started", "Container started");
        self.link_log(pod, container, &id, restart_count);
        self.post_start(pod, container, &id).await
    }

    fn log_dir(&self, pod: &Pod, container: &Container) -> PathBuf {
        logs::pod_log_dir(&self.config.pod_logs_dir, pod).join(&container.name)
    }

    /// Everything but the image.
    async fn container_input<'a>(
        &self,
        pod: &'a Pod,
        container: &'a Container,
        target: Option<String>,
        restart_count: i32,
    ) -> Result<ContainerInput<'a>, SetupError> {
        let addresses = self.addresses(pod);
        let env = self.environment.resolve(pod, container, &addresses).await?;
        let mut mounts = self.volumes.container_mounts(pod, container, &env).await?;
        let handler = self.state.handler(&self.classes.handler(pod).await?);
        for (mount, wanted) in mounts.iter_mut().zip(container.volume_mounts.iter().flatten()) {
            mount.recursive_read_only = recursive_read_only(wanted, handler.recursive_read_only_mounts)
                .map_err(|why| {
                    SetupError::Config(format!("failed to resolve recursive read-only mode: {why}"))
                })?;
        }
        let io = |what: &str, error: std::io::Error| SetupError::Config(format!("{what}: {error}"));
        if hosts::is_managed(container) && !addresses.pod_ips.is_empty() {
            mounts.push(
                self.hosts_mount(pod, container, &addresses.pod_ips)
                    .map_err(|e| io("managed hosts file", e))?,
            );
        }
        if let Some(mount) = self.termination_mount(pod, container).map_err(|e| io("termination log", e))? {
            mounts.push(mount);
        }
        std::fs::create_dir_all(self.log_dir(pod, container)).map_err(|e| {
            io(&format!("create container log directory for container {} failed", container.name), e)
        })?;
        Ok(ContainerInput {
            pod,
            container,
            restart_count,
            image_ref: String::new(),
            image_user: Default::default(),
            env,
            mounts,
            extra_groups: self.volumes.extra_groups(pod),
            users: self.users.of(pod).map_err(SetupError::Retry)?,
            target,
            memory_capacity: self.memory_capacity,
        })
    }

    fn hosts_mount(&self, pod: &Pod, container: &Container, ips: &[String]) -> std::io::Result<cri::Mount> {
        let text = if pod.is_host_network() {
            hosts::render_host_network_hosts(pod, &std::fs::read_to_string("/etc/hosts").unwrap_or_default())
        } else {
            hosts::render_hosts(pod, ips, &self.config.cluster_domain)
        };
        let dir = self.config.pod_dir(pod.uid());
        std::fs::create_dir_all(&dir)?;
        let file = dir.join("etc-hosts");
        std::fs::write(&file, text)?;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644))?;
        let read_only =
            container.security_context.as_ref().and_then(|c| c.read_only_root_filesystem) == Some(true);
        Ok(cri::Mount {
            host_path: file.display().to_string(),
            container_path: "/etc/hosts".to_owned(),
            readonly: read_only,
            ..Default::default()
        })
    }

    /// A fresh file for the termination message, writable by any user.
    fn termination_mount(&self, pod: &Pod, container: &Container) -> std::io::Result<Option<cri::Mount>> {
        let path = container.termination_message_path.as_deref().unwrap_or_default();
        if path.is_empty() {
            return Ok(None);
        }
        let dir = self.config.pod_dir(pod.uid()).join("containers").join(&container.name);
        std::fs::create_dir_all(&dir)?;
        let file = dir.join(format!("{:08x}", rand::random::<u32>()));
        std::fs::write(&file, "")?;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666))?;
        let container_path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Some(cri::Mount { host_path: file.display().to_string(), container_path, ..Default::default() }))
    }

    fn link_log(&self, pod: &Pod, container: &Container, id: &str, restart_count: i32) {
        let target = logs::pod_log_dir(&self.config.pod_logs_dir, pod)
            .join(logs::container_log_path(&container.name, restart_count));
        let link = logs::legacy_link(&self.config.container_logs_dir, pod, &container.name, id);
        if let Err(error) = std::os::unix::fs::symlink(&target, &link)
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            tracing::warn!(link = %link.display(), %error, "log symlink");
        }
    }

    async fn post_start(&self, pod: &Pod, container: &Container, id: &str) -> Result<(), Failure> {
        let Some(hook) = container.lifecycle.as_ref().and_then(|l| l.post_start.as_ref()) else {
            return Ok(());
        };
        let ip = self.pod_ip(pod.uid()).or_else(|| self.addresses(pod).pod_ips.first().cloned());
        let run = hooks::run(self.runtime.as_ref(), pod, container, id, ip.as_deref(), hook);
        let Err(error) = run.await else { return Ok(()) };
        tracing::warn!(pod = pod.full_name(), container = container.name, %error, "postStart hook failed");
        // The hook's output may hold secrets, so the event does not quote it.
        let path = field_path(pod, &container.name);
        self.events.pod_event(pod, path, EventKind::Warning, "FailedPostStartHook", "PostStartHook failed");
        self.kill_after_hook(pod, id).await.unwrap_or_else(|kill| {
            tracing::error!(pod = pod.full_name(), container = container.name, error = %kill, "kill after failed hook");
        });
        Err(Failure { reason: "PostStartHookError", message: error.to_string(), retry: None })
    }

    async fn kill_after_hook(&self, pod: &Pod, id: &str) -> Result<(), CriError> {
        let status = self.runtime.container_status(id).await?;
        let found = view::container_view(&status, "");
        self.kill_container(pod, &found, "FailedPostStartHook", KillReason::Other, None).await
    }
}

/// Whether a mount is read-only down to the mounts inside it.
///
/// # Errors
/// Upstream's words for a mode that contradicts the mount or that the runtime does not have.
pub(crate) fn recursive_read_only(mount: &VolumeMount, supported: bool) -> Result<bool, String> {
    let asks =
        |what: &str| Err(format!("volume {:?} requested recursive read-only mode, but {what}", mount.name));
    let mode = mount.recursive_read_only.as_deref().unwrap_or("Disabled");
    if mode == "Disabled" {
        return Ok(false);
    }
    if mount.read_only != Some(true) {
        return asks("it is not read-only");
    }
    if let Some(propagation) = mount.mount_propagation.as_deref().filter(|p| *p != "None") {
        return asks(&format!("it is not compatible with propagation {propagation:?}"));
    }
    match mode {
        "IfPossible" => Ok(supported),
        "Enabled" if supported => Ok(true),
        "Enabled" => asks("it is not supported by the runtime"),
        other => Err(format!("unknown recursive read-only mode {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recursive_read_only_follows_the_mount_and_the_runtime() {
        let ask = |mode: &str, read_only: bool, supported: bool| {
            let mount = VolumeMount {
                name: "v".to_owned(),
                read_only: Some(read_only),
                recursive_read_only: Some(mode.to_owned()),
                ..VolumeMount::default()
            };
            recursive_read_only(&mount, supported)
        };
        assert_eq!(ask("Disabled", false, true), Ok(false));
        assert_eq!(ask("IfPossible", true, false), Ok(false));
        assert_eq!(ask("Enabled", true, true), Ok(true));
        assert!(ask("Enabled", true, false).unwrap_err().contains("not supported by the runtime"));
        assert!(ask("IfPossible", false, true).unwrap_err().contains("it is not read-only"));
    }
}
