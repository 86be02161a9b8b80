//! Files that are written only when they differ: an unchanged manifest must not restart a static pod.

use std::path::Path;

use crate::error::{BootstrapError, file};

/// Writes `contents` atomically unless the file holds exactly that already; says whether it wrote.
pub(crate) fn write_if_changed(path: &Path, contents: &str, mode: u32) -> Result<bool, BootstrapError> {
    if std::fs::read_to_string(path).is_ok_and(|present| present == contents) {
        return Ok(false);
    }
    copepod_pki::write_private(path, contents, mode)?;
    Ok(true)
}

/// Makes a folder and its parents.
pub(crate) fn make_dir(path: &Path) -> Result<(), BootstrapError> {
    std::fs::create_dir_all(path).map_err(file("create", path))
}
