//! The kubelet's volumes: `copepod-volume` behind the ports of the core.

use std::sync::Arc;

use copepod_cri::v1 as cri;
use copepod_volume::{ContainerMount, VolumeError, Volumes};
use k8s_openapi::api::core::v1::{Container, Pod};

use crate::objects::{ApiObjects, references};
use crate::ports::{BoxFuture, PodVolumes, PullSecrets, SetupError};
use crate::types::PodRef;

/// Mounts volumes, and keeps the objects they are made of watched while the pod lives.
#[derive(Debug)]
pub struct KubeletVolumes {
    volumes: Volumes,
    objects: Option<Arc<ApiObjects>>,
}

impl KubeletVolumes {
    /// Volumes whose objects are followed by `objects`, when there is an API server.
    #[must_use]
    pub fn new(volumes: Volumes, objects: Option<Arc<ApiObjects>>) -> Self {
        Self { volumes, objects }
    }
}

fn setup(error: VolumeError) -> SetupError {
    if error.permanent() {
        SetupError::Config(error.to_string())
    } else {
        SetupError::Retry(error.to_string())
    }
}

impl PodVolumes for KubeletVolumes {
    fn mount<'a>(&'a self, pod: &'a PodRef) -> BoxFuture<'a, Result<(), SetupError>> {
        if let Some(objects) = &self.objects {
            objects.track(pod.metadata.uid.as_deref().unwrap_or_default(), &references(pod));
        }
        Box::pin(async move { self.volumes.mount(pod).await.map_err(setup) })
    }

    fn container_mounts<'a>(
        &'a self,
        pod: &'a Pod,
        container: &'a Container,
        env: &'a [(String, String)],
    ) -> BoxFuture<'a, Result<Vec<cri::Mount>, SetupError>> {
        Box::pin(async move {
            let mounts = self.volumes.container_mounts(pod, container, env).await.map_err(setup)?;
            Ok(mounts.into_iter().map(to_cri).collect())
        })
    }

    fn extra_groups(&self, _pod: &Pod) -> Vec<i64> {
        // Only persistent volumes carry a group of their own (`pv.beta.kubernetes.io/gid`), and those that this node
        // mounts, hostPath and local, have none.
        Vec::new()
    }

    fn unmount<'a>(&'a self, uid: &'a str) -> BoxFuture<'a, Result<(), SetupError>> {
        if let Some(objects) = &self.objects {
            objects.forget(uid);
        }
        Box::pin(async move { self.volumes.unmount(uid).map_err(setup) })
    }
}

fn to_cri(mount: ContainerMount) -> cri::Mount {
    let propagation = match mount.propagation.as_deref() {
        Some("Bidirectional") => cri::MountPropagation::PropagationBidirectional,
        Some("HostToContainer") => cri::MountPropagation::PropagationHostToContainer,
        _ => cri::MountPropagation::PropagationPrivate,
    };
    cri::Mount {
        container_path: mount.container_path,
        host_path: mount.host_path.display().to_string(),
        readonly: mount.read_only,
        propagation: propagation.into(),
        image: mount.image.map(|image| cri::ImageSpec { image, ..cri::ImageSpec::default() }),
        image_sub_path: mount.image_sub_path,
        ..cri::Mount::default()
    }
}

impl PullSecrets for ApiObjects {
    fn resolve<'a>(&'a self, pod: &'a Pod) -> BoxFuture<'a, (Vec<serde_json::Value>, Vec<String>)> {
        Box::pin(async move {
            let (mut found, mut missing) = (Vec::new(), Vec::new());
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            for reference in pod.spec.iter().flat_map(|s| s.image_pull_secrets.iter().flatten()) {
                let secret = copepod_volume::ObjectSource::secret(self, namespace, &reference.name).await;
                let data = secret.ok().and_then(|s| s.data).unwrap_or_default();
                let document = [".dockerconfigjson", ".dockercfg"]
                    .into_iter()
                    .find_map(|key| serde_json::from_slice(&data.get(key)?.0).ok());
                match document {
                    Some(document) => found.push(document),
                    None => missing.push(reference.name.clone()),
                }
            }
            (found, missing)
        })
    }
}

impl PullSecrets for crate::objects::NoObjects {
    fn resolve<'a>(&'a self, pod: &'a Pod) -> BoxFuture<'a, (Vec<serde_json::Value>, Vec<String>)> {
        let references = pod.spec.iter().flat_map(|s| s.image_pull_secrets.iter().flatten());
        let missing = references.map(|r| r.name.clone()).collect();
        Box::pin(async move { (Vec::new(), missing) })
    }
}
