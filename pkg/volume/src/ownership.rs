//! `fsGroup`: handing a volume to the pod's group (upstream's `SetVolumeOwnership`).

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;

use crate::error::VolumeError;

const READ_WRITE: u32 = 0o660;
const READ_ONLY: u32 = 0o440;
const EXECUTE: u32 = 0o110;
const SET_GID: u32 = 0o2000;

/// The group that owns the pod's volumes.
pub(crate) fn fs_group(pod: &Pod) -> Option<u32> {
    let group = pod.spec.as_ref()?.security_context.as_ref()?.fs_group?;
    u32::try_from(group).ok()
}

/// The user all containers of the pod run as, when it is one and stated.
pub(crate) fn fs_user(pod: &Pod) -> Option<u32> {
    let spec = pod.spec.as_ref()?;
    let of_pod = spec.security_context.as_ref().and_then(|c| c.run_as_user);
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let mut users = containers.map(|c| c.security_context.as_ref().and_then(|s| s.run_as_user).or(of_pod));
    let first = users.next()??;
    users.all(|user| user == Some(first)).then(|| u32::try_from(first).ok()).flatten()
}

/// Gives `root` and all below it to `group` with the modes that let the group use it.
pub(crate) fn hand_over(root: &Path, group: Option<u32>, read_only: bool) -> Result<(), VolumeError> {
    let Some(group) = group else { return Ok(()) };
    change(root, group, if read_only { READ_ONLY } else { READ_WRITE })?;
    if root.is_dir() {
        for entry in fs::read_dir(root).map_err(VolumeError::io("read", root))?.flatten() {
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() {
                hand_over(&path, Some(group), read_only)?;
            } else {
                change(&path, group, if read_only { READ_ONLY } else { READ_WRITE })?;
            }
        }
    }
    Ok(())
}

fn change(path: &Path, group: u32, mask: u32) -> Result<(), VolumeError> {
    let metadata = path.symlink_metadata().map_err(VolumeError::io("look at", path))?;
    if metadata.gid() != group {
        lchown(path, None, Some(group)).map_err(VolumeError::io("change the group of", path))?;
    }
    if metadata.file_type().is_symlink() {
        return Ok(());
    }
    let extra = if metadata.is_dir() { mask | EXECUTE | SET_GID } else { mask };
    let mode = metadata.permissions().mode() | extra;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(VolumeError::io("set the mode of", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_user_for_all_containers_or_none() {
        let pod = |value| serde_json::from_value::<Pod>(value).unwrap();
        let same = pod(json!({"spec": {
            "securityContext": {"runAsUser": 7, "fsGroup": 9},
            "containers": [{"name": "a"}, {"name": "b", "securityContext": {"runAsUser": 7}}]}}));
        assert_eq!((fs_user(&same), fs_group(&same)), (Some(7), Some(9)));
        let differ = pod(json!({"spec": {"containers": [
            {"name": "a", "securityContext": {"runAsUser": 7}}, {"name": "b"}]}}));
        assert_eq!((fs_user(&differ), fs_group(&differ)), (None, None));
    }
}
