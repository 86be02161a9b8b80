//! The contents of volumes that the kubelet writes itself.

mod projected;

use k8s_openapi::api::core::v1::{Pod, Volume};

use super::namespace;
use crate::atomic::Payload;
use crate::error::VolumeError;
use crate::payload::{self, DEFAULT_MODE, mode_or};
use crate::source::{NodeFacts, ObjectSource};

/// Upstream's name of the plugin in a volume's directory.
pub(super) fn plugin(volume: &Volume) -> Result<&'static str, VolumeError> {
    let known = [
        (volume.empty_dir.is_some(), "empty-dir"),
        (volume.config_map.is_some(), "configmap"),
        (volume.secret.is_some(), "secret"),
        (volume.downward_api.is_some(), "downward-api"),
        (volume.projected.is_some(), "projected"),
    ];
    match known.into_iter().find(|(is, _)| *is) {
        Some((_, name)) => Ok(name),
        None => Err(VolumeError::Unsupported(source_name(volume))),
    }
}

/// The field that says what the volume is, for an error text.
fn source_name(volume: &Volume) -> String {
    let value = serde_json::to_value(volume).unwrap_or_default();
    let mut keys = value.as_object().into_iter().flat_map(|map| map.keys());
    keys.find(|key| *key != "name").cloned().unwrap_or_else(|| "unknown".to_owned())
}

/// The files of one volume.
pub(super) async fn payload(
    pod: &Pod,
    volume: &Volume,
    source: &dyn ObjectSource,
    node: &NodeFacts,
) -> Result<Payload, VolumeError> {
    if let Some(wanted) = &volume.config_map {
        let object = optional(source.config_map(namespace(pod), &wanted.name).await, wanted.optional)?;
        return payload::config_map(wanted, object.as_ref());
    }
    if let Some(wanted) = &volume.secret {
        let name = wanted.secret_name.as_deref().unwrap_or_default();
        let object = optional(source.secret(namespace(pod), name).await, wanted.optional)?;
        return payload::secret(wanted, object.as_ref());
    }
    if let Some(wanted) = &volume.downward_api {
        let items = wanted.items.as_deref().unwrap_or_default();
        return payload::downward_api(items, pod, &[], node, mode_or(wanted.default_mode, DEFAULT_MODE));
    }
    if let Some(wanted) = &volume.projected {
        return projected::payload(pod, &volume.name, wanted, source, node).await;
    }
    Err(VolumeError::Unsupported(source_name(volume)))
}

/// `None` for an optional object that is absent.
fn optional<T>(found: Result<T, VolumeError>, optional: Option<bool>) -> Result<Option<T>, VolumeError> {
    match found {
        Ok(object) => Ok(Some(object)),
        Err(VolumeError::NotFound(..)) if optional == Some(true) => Ok(None),
        Err(error) => Err(error),
    }
}
