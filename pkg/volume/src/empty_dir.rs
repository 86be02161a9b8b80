//! `emptyDir`, and the directories that other volumes are written into.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use copepod_sys::mount;

use crate::error::VolumeError;

/// What a directory of a pod is backed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Medium {
    /// The node's disk.
    Disk,
    /// Memory, up to so many bytes when there is a limit.
    Memory(Option<i64>),
}

/// Makes the directory, world-writable as upstream's is, and mounts memory on it when asked; repeatable.
pub(crate) fn make(dir: &Path, medium: Medium) -> Result<(), VolumeError> {
    fs::create_dir_all(dir).map_err(VolumeError::io("create", dir))?;
    if let Medium::Memory(limit) = medium
        && !is_mount_point(dir)?
    {
        let size = limit.filter(|bytes| *bytes > 0).map(|bytes| format!("size={bytes}")).unwrap_or_default();
        mount::new("tmpfs", dir, &size).map_err(|e| VolumeError::Io {
            action: "mount tmpfs on",
            path: dir.to_owned(),
            why: e.to_string(),
        })?;
    }
    let mode = dir.metadata().map_err(VolumeError::io("look at", dir))?.permissions().mode();
    if mode & 0o777 == 0o777 {
        return Ok(());
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(mode | 0o777))
        .map_err(VolumeError::io("set the mode of", dir))
}

/// Whether something is mounted exactly at `path`.
pub(crate) fn is_mount_point(path: &Path) -> Result<bool, VolumeError> {
    Ok(mounts_below(path)?.iter().any(|mounted| mounted == path))
}

/// Every mount point at or below `path`, deepest first.
pub(crate) fn mounts_below(path: &Path) -> Result<Vec<std::path::PathBuf>, VolumeError> {
    let table = mount::table().map_err(VolumeError::io("read the mount table for", path))?;
    let mut below: Vec<_> =
        table.into_iter().map(|m| m.mount_point).filter(|m| m.starts_with(path)).collect();
    below.sort_by_key(|m| std::cmp::Reverse(m.components().count()));
    Ok(below)
}
