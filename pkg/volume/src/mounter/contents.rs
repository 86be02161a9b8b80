//! The contents of volumes that the kubelet writes itself.

use k8s_openapi::api::core::v1::{
    Pod, ProjectedVolumeSource, ServiceAccountTokenProjection, Volume, VolumeProjection,
};

use super::namespace;
use crate::atomic::{File, Payload};
use crate::error::VolumeError;
use crate::ownership;
use crate::payload::{self, DEFAULT_MODE, mode_or};
use crate::source::{NodeFacts, ObjectSource, TokenRequest};

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
        return projected(pod, wanted, source, node).await;
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

async fn projected(
    pod: &Pod,
    wanted: &ProjectedVolumeSource,
    source: &dyn ObjectSource,
    node: &NodeFacts,
) -> Result<Payload, VolumeError> {
    let mode = mode_or(wanted.default_mode, DEFAULT_MODE);
    let mut all = Payload::new();
    for projection in wanted.sources.iter().flatten() {
        all.extend(one_projection(pod, projection, mode, source, node).await?);
    }
    Ok(all)
}

async fn one_projection(
    pod: &Pod,
    projection: &VolumeProjection,
    mode: u32,
    source: &dyn ObjectSource,
    node: &NodeFacts,
) -> Result<Payload, VolumeError> {
    if let Some(wanted) = &projection.config_map {
        let object = optional(source.config_map(namespace(pod), &wanted.name).await, wanted.optional)?;
        let optional = wanted.optional == Some(true);
        return payload::config_map_items(wanted.items.as_deref(), object.as_ref(), optional, mode);
    }
    if let Some(wanted) = &projection.secret {
        let object = optional(source.secret(namespace(pod), &wanted.name).await, wanted.optional)?;
        let optional = wanted.optional == Some(true);
        return payload::secret_items(wanted.items.as_deref(), object.as_ref(), optional, mode);
    }
    if let Some(wanted) = &projection.downward_api {
        return payload::downward_api(wanted.items.as_deref().unwrap_or_default(), pod, &[], node, mode);
    }
    if let Some(wanted) = &projection.service_account_token {
        return token(pod, wanted, mode, source).await;
    }
    let value = serde_json::to_value(projection).unwrap_or_default();
    let kind = value.as_object().and_then(|map| map.keys().next()).cloned().unwrap_or_default();
    Err(VolumeError::Unsupported(format!("projected {kind}")))
}

/// A token is readable by its owner alone as soon as a user or group is known to read it.
async fn token(
    pod: &Pod,
    wanted: &ServiceAccountTokenProjection,
    mode: u32,
    source: &dyn ObjectSource,
) -> Result<Payload, VolumeError> {
    let request = TokenRequest {
        audience: wanted.audience.clone().unwrap_or_default(),
        expiration_seconds: wanted.expiration_seconds.unwrap_or(3600),
    };
    let text = source.token(pod, &request).await?;
    let owner = ownership::fs_user(pod);
    let private = owner.is_some() || ownership::fs_group(pod).is_some();
    let file = File { data: text.into_bytes(), mode: if private { 0o600 } else { mode }, owner };
    Ok(Payload::from([(wanted.path.clone(), file)]))
}
