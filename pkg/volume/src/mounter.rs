//! Making a pod's volumes ready, and telling a container's mounts.

mod contents;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use copepod_sys::mount;
use k8s_openapi::api::core::v1::{Container, Pod, Volume, VolumeMount};

use crate::downward;
use crate::empty_dir::{self, Medium};
use crate::error::VolumeError;
use crate::host_path;
use crate::ownership;
use crate::source::{NodeFacts, ObjectSource};
use crate::subpath;

/// Where volumes lie and what they may tell.
#[derive(Debug, Clone)]
pub struct VolumeConfig {
    /// The kubelet's directory; pods are at `<root>/pods/<uid>`.
    pub root: PathBuf,
    /// What the downward API tells of the node.
    pub node: NodeFacts,
}

/// One mount of a container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerMount {
    /// Where the container sees it.
    pub container_path: String,
    /// What it is on the host; empty for an image.
    pub host_path: PathBuf,
    /// Whether it may only be read.
    pub read_only: bool,
    /// `None`, `HostToContainer` or `Bidirectional`.
    pub propagation: Option<String>,
    /// The image that is mounted instead of a host path.
    pub image: Option<String>,
    /// The part of that image.
    pub image_sub_path: String,
}

/// The volumes of all pods on this node.
pub struct Volumes {
    config: VolumeConfig,
    source: Arc<dyn ObjectSource>,
}

impl std::fmt::Debug for Volumes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volumes").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Volumes {
    /// Volumes below `config.root` whose contents come from `source`.
    #[must_use]
    pub fn new(config: VolumeConfig, source: Arc<dyn ObjectSource>) -> Self {
        Self { config, source }
    }

    /// Makes every volume of the pod ready, and brings those that follow an object up to date.
    ///
    /// # Errors
    /// The first volume that is not ready, in the words of upstream's `FailedMount` event.
    pub async fn mount(&self, pod: &Pod) -> Result<(), VolumeError> {
        for volume in volumes(pod) {
            self.mount_one(pod, volume).await.map_err(|error| {
                let text = format!("MountVolume.SetUp failed for volume {:?} : {error}", volume.name);
                if error.permanent() { VolumeError::Invalid(text) } else { VolumeError::Api(text) }
            })?;
        }
        Ok(())
    }

    async fn mount_one(&self, pod: &Pod, volume: &Volume) -> Result<(), VolumeError> {
        if let Some(source) = &volume.host_path {
            return host_path::check(Path::new(&source.path), source.type_.as_deref().unwrap_or_default());
        }
        if let Some(claim) = claim_name(pod, volume) {
            self.source.claim(namespace(pod), &claim).await?;
            return Ok(());
        }
        if volume.image.is_some() {
            return Ok(());
        }
        let dir = self.dir(pod, volume)?;
        empty_dir::make(&dir, medium(volume)?)?;
        let group = ownership::fs_group(pod);
        if volume.empty_dir.is_some() {
            return ownership::hand_over(&dir, group, false);
        }
        let payload = contents::payload(pod, volume, self.source.as_ref(), &self.config.node).await?;
        let stamp = copepod_sys::clock::now().strftime("%Y_%m_%d_%H_%M_%S.%f").to_string();
        crate::atomic::write(&dir, &payload, &stamp, |version| ownership::hand_over(version, group, true))?;
        Ok(())
    }

    /// The mounts of one container; `env` expands `subPathExpr`.
    ///
    /// # Errors
    /// A mount without its volume, a sub path that leaves its volume, an expression that cannot be expanded.
    pub async fn container_mounts(
        &self,
        pod: &Pod,
        container: &Container,
        env: &[(String, String)],
    ) -> Result<Vec<ContainerMount>, VolumeError> {
        let mut mounts = Vec::new();
        for (index, wanted) in container.volume_mounts.iter().flatten().enumerate() {
            let volume = volumes(pod).find(|v| v.name == wanted.name).ok_or_else(|| {
                VolumeError::Invalid(format!(
                    "cannot find volume {:?} to mount into container {:?}",
                    wanted.name, container.name
                ))
            })?;
            let sub_path = sub_path(wanted, env)?;
            let mut mount = ContainerMount {
                container_path: absolute(&wanted.mount_path),
                read_only: wanted.read_only == Some(true),
                propagation: wanted.mount_propagation.clone(),
                ..ContainerMount::default()
            };
            if let Some(image) = &volume.image {
                mount.image = image.reference.clone();
                mount.image_sub_path = sub_path.unwrap_or_default();
                mount.read_only = true;
            } else {
                let root = self.host_path(pod, volume).await?;
                mount.host_path = match sub_path {
                    Some(sub) => self
                        .bind_sub_path(pod, container, (&wanted.name, index), (&root, &sub))
                        .map_err(|error| hide_host(error, wanted, container))?,
                    None => root,
                };
                mount.read_only |= always_read_only(volume);
            }
            mounts.push(mount);
        }
        Ok(mounts)
    }

    /// Upstream's place for bound sub paths: `volume-subpaths/<volume>/<container>/<index>`.
    fn bind_sub_path(
        &self,
        pod: &Pod,
        container: &Container,
        (volume, index): (&str, usize),
        (root, sub): (&Path, &str),
    ) -> Result<PathBuf, VolumeError> {
        let base = self.pod_dir(uid(pod)).join("volume-subpaths");
        let target = base.join(volume).join(&container.name).join(index.to_string());
        subpath::bind(root, sub, &target)?;
        Ok(target)
    }

    /// What a volume is on the host.
    async fn host_path(&self, pod: &Pod, volume: &Volume) -> Result<PathBuf, VolumeError> {
        if let Some(source) = &volume.host_path {
            return Ok(PathBuf::from(&source.path));
        }
        match claim_name(pod, volume) {
            Some(claim) => self.source.claim(namespace(pod), &claim).await.map(PathBuf::from),
            None => self.dir(pod, volume),
        }
    }

    /// Unmounts and removes everything of a pod's volumes; the pod's containers are gone.
    ///
    /// # Errors
    /// A mount that cannot be undone; nothing is removed then, so that no foreign file is touched.
    pub fn unmount(&self, uid: &str) -> Result<(), VolumeError> {
        let pod = self.pod_dir(uid);
        for mounted in empty_dir::mounts_below(&pod)? {
            mount::detach(&mounted).map_err(VolumeError::io("unmount", &mounted))?;
        }
        if let Some(left) = empty_dir::mounts_below(&pod)?.first() {
            return Err(VolumeError::Io {
                action: "unmount",
                path: left.clone(),
                why: "still mounted".to_owned(),
            });
        }
        for part in ["volumes", "volume-subpaths"] {
            let dir = pod.join(part);
            if dir.symlink_metadata().is_ok() {
                fs::remove_dir_all(&dir).map_err(VolumeError::io("remove", &dir))?;
            }
        }
        Ok(())
    }

    fn pod_dir(&self, uid: &str) -> PathBuf {
        self.config.root.join("pods").join(uid)
    }

    /// Upstream's directory of a volume: `volumes/kubernetes.io~<plugin>/<name>`.
    fn dir(&self, pod: &Pod, volume: &Volume) -> Result<PathBuf, VolumeError> {
        let plugin = contents::plugin(volume)?;
        Ok(self.pod_dir(uid(pod)).join("volumes").join(format!("kubernetes.io~{plugin}")).join(&volume.name))
    }
}

fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.as_ref().and_then(|s| s.volumes.as_ref()).into_iter().flatten()
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or("default")
}

/// What a pod's owner is told of a sub path that failed: not what the host's file system looks like.
fn hide_host(error: VolumeError, mount: &VolumeMount, container: &Container) -> VolumeError {
    if error.permanent() {
        return error;
    }
    tracing::warn!(container = container.name, volume = mount.name, %error, "sub path");
    VolumeError::Invalid(format!(
        "failed to prepare subPath for volumeMount {:?} of container {:?}",
        mount.name, container.name
    ))
}

/// The claim behind a volume: named, or made for the pod (`<pod>-<volume>`).
fn claim_name(pod: &Pod, volume: &Volume) -> Option<String> {
    if let Some(claim) = &volume.persistent_volume_claim {
        return Some(claim.claim_name.clone());
    }
    volume.ephemeral.as_ref()?;
    Some(format!("{}-{}", pod.metadata.name.as_deref().unwrap_or_default(), volume.name))
}

/// Volumes that the kubelet writes are read-only for containers, whatever the mount says.
fn always_read_only(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
        || volume.persistent_volume_claim.as_ref().is_some_and(|c| c.read_only == Some(true))
}

fn medium(volume: &Volume) -> Result<Medium, VolumeError> {
    if volume.config_map.is_some() {
        return Ok(Medium::Disk);
    }
    let Some(source) = &volume.empty_dir else { return Ok(Medium::Memory(None)) };
    match source.medium.as_deref().unwrap_or_default() {
        "" => Ok(Medium::Disk),
        "Memory" => {
            let limit = source.size_limit.as_ref().and_then(|q| q.0.parse::<copepod_api::Quantity>().ok());
            Ok(Medium::Memory(limit.map(copepod_api::Quantity::units)))
        }
        other => Err(VolumeError::Unsupported(format!("emptyDir with medium {other}"))),
    }
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

fn sub_path(mount: &VolumeMount, env: &[(String, String)]) -> Result<Option<String>, VolumeError> {
    if let Some(expression) = mount.sub_path_expr.as_deref().filter(|e| !e.is_empty()) {
        return downward::expand_strict(expression, env).map(Some);
    }
    Ok(mount.sub_path.clone().filter(|s| !s.is_empty()))
}

#[cfg(test)]
mod tests;
