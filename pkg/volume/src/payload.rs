//! What an API volume contains, computed from the objects it names.

use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, DownwardAPIVolumeFile, KeyToPath, Pod, Secret, SecretVolumeSource,
};

use crate::atomic::{File, Payload};
use crate::downward;
use crate::error::VolumeError;
use crate::source::NodeFacts;

/// Mode of files when the volume says nothing.
pub const DEFAULT_MODE: u32 = 0o644;

/// The mode bits of an API field (a signed number there).
#[must_use]
pub fn mode_or(mode: Option<i32>, default: u32) -> u32 {
    mode.and_then(|m| u32::try_from(m).ok()).unwrap_or(default)
}

fn file(data: impl Into<Vec<u8>>, mode: u32) -> File {
    File { data: data.into(), mode, owner: None }
}

/// The files of a ConfigMap volume; `None` stands for a map that is optional and absent.
///
/// # Errors
/// A key that is named and missing, unless the volume is optional.
pub fn config_map(
    source: &ConfigMapVolumeSource,
    object: Option<&ConfigMap>,
) -> Result<Payload, VolumeError> {
    let mode = mode_or(source.default_mode, DEFAULT_MODE);
    config_map_items(source.items.as_deref(), object, source.optional == Some(true), mode)
}

/// The same for an item list of any origin (a projection has no mode of its own).
///
/// # Errors
/// As [`config_map`].
pub fn config_map_items(
    items: Option<&[KeyToPath]>,
    object: Option<&ConfigMap>,
    optional: bool,
    mode: u32,
) -> Result<Payload, VolumeError> {
    let lookup = |key: &str| {
        let object = object?;
        let text = object.data.as_ref().and_then(|d| d.get(key)).map(|text| text.as_bytes());
        text.or_else(|| object.binary_data.as_ref().and_then(|d| d.get(key)).map(|b| b.0.as_slice()))
    };
    let keys = || {
        let text = object.and_then(|o| o.data.as_ref()).into_iter().flat_map(|d| d.keys());
        let binary = object.and_then(|o| o.binary_data.as_ref()).into_iter().flat_map(|d| d.keys());
        text.chain(binary).cloned().collect()
    };
    select(items, lookup, keys, "config", optional, mode)
}

/// The files of a Secret volume.
///
/// # Errors
/// As [`config_map`].
pub fn secret(source: &SecretVolumeSource, object: Option<&Secret>) -> Result<Payload, VolumeError> {
    let mode = mode_or(source.default_mode, DEFAULT_MODE);
    secret_items(source.items.as_deref(), object, source.optional == Some(true), mode)
}

/// The same for an item list of any origin.
///
/// # Errors
/// As [`config_map`].
pub fn secret_items(
    items: Option<&[KeyToPath]>,
    object: Option<&Secret>,
    optional: bool,
    mode: u32,
) -> Result<Payload, VolumeError> {
    let data = object.and_then(|o| o.data.as_ref());
    let lookup = |key: &str| data.and_then(|d| d.get(key)).map(|b| b.0.as_slice());
    let keys = || data.into_iter().flat_map(|d| d.keys()).cloned().collect();
    select(items, lookup, keys, "secret", optional, mode)
}

/// All keys, or those the items name under the paths they give.
fn select<'a>(
    items: Option<&[KeyToPath]>,
    lookup: impl Fn(&str) -> Option<&'a [u8]>,
    keys: impl Fn() -> Vec<String>,
    what: &'static str,
    optional: bool,
    mode: u32,
) -> Result<Payload, VolumeError> {
    let Some(items) = items.filter(|i| !i.is_empty()) else {
        let all = keys().into_iter().filter_map(|key| Some((key.clone(), file(lookup(&key)?, mode))));
        return Ok(all.collect());
    };
    let mut payload = Payload::new();
    for item in items {
        match lookup(&item.key) {
            Some(data) => {
                payload.insert(item.path.clone(), file(data, mode_or(item.mode, mode)));
            }
            None if optional => {}
            None => return Err(VolumeError::MissingKey(what, item.key.clone())),
        }
    }
    Ok(payload)
}

/// The files of a downward API volume.
///
/// # Errors
/// A field or resource that the downward API does not have, or a container that the pod does not have.
pub fn downward_api(
    items: &[DownwardAPIVolumeFile],
    pod: &Pod,
    pod_ips: &[String],
    node: &NodeFacts,
    mode: u32,
) -> Result<Payload, VolumeError> {
    let mut payload = Payload::new();
    for item in items {
        let text = if let Some(field) = &item.field_ref {
            downward::field(pod, &field.field_path, pod_ips, node)?
        } else if let Some(selector) = &item.resource_field_ref {
            let name = selector.container_name.as_deref().unwrap_or_default();
            let spec = pod.spec.as_ref();
            let init = spec.and_then(|s| s.init_containers.as_deref()).unwrap_or_default();
            let mut containers = spec.map(|s| s.containers.as_slice()).unwrap_or_default().iter().chain(init);
            let container = containers
                .find(|c| c.name == name)
                .ok_or_else(|| VolumeError::Invalid(format!("container {name} not found")))?;
            downward::resource(container, selector, node)?
        } else {
            return Err(VolumeError::Invalid(format!("downward API item {:?} names nothing", item.path)));
        };
        payload.insert(item.path.clone(), file(text, mode_or(item.mode, mode)));
    }
    Ok(payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_keys_or_the_named_ones() {
        let map: ConfigMap =
            serde_json::from_value(json!({"data": {"a": "1", "b": "2"}, "binaryData": {"c": "AAE="}}))
                .unwrap();
        let source = |value| serde_json::from_value::<ConfigMapVolumeSource>(value).unwrap();
        let all = config_map(&source(json!({"name": "m", "defaultMode": 256})), Some(&map)).unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!((all["c"].data.as_slice(), all["c"].mode), ([0, 1].as_slice(), 0o400));
        let named = source(json!({"name": "m", "items": [{"key": "a", "path": "x/y", "mode": 384}]}));
        let files = config_map(&named, Some(&map)).unwrap();
        assert_eq!((files.len(), files["x/y"].mode), (1, 0o600));
        let missing = source(json!({"name": "m", "items": [{"key": "z", "path": "z"}]}));
        assert_eq!(
            config_map(&missing, Some(&map)).unwrap_err().to_string(),
            "references non-existent config key: z"
        );
        let optional = source(json!({"name": "m", "optional": true, "items": [{"key": "z", "path": "z"}]}));
        assert!(config_map(&optional, None).unwrap().is_empty());
    }
}
