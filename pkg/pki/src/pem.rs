//! Files with keys in them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::error::PkiError;

/// Writes a file atomically and durably: a temporary file beside it, synced, then renamed. Missing folders are made.
///
/// # Errors
/// Names the file when it cannot be written.
pub fn write_private(path: &Path, contents: &str, mode: u32) -> Result<(), PkiError> {
    let fail = |action| move |source| PkiError::File { action, path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(parent)
            .map_err(fail("create the folder of"))?;
    }
    let temporary = path.with_extension("tmp");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&temporary)
        .map_err(fail("write"))?;
    file.write_all(contents.as_bytes()).and_then(|()| file.sync_all()).map_err(fail("write"))?;
    fs::rename(&temporary, path).map_err(fail("replace"))?;
    if let Some(parent) = path.parent() {
        // The rename itself must survive a power cut.
        fs::File::open(parent).and_then(|dir| dir.sync_all()).map_err(fail("sync the folder of"))?;
    }
    Ok(())
}

/// Reads a file that may be absent.
pub(crate) fn read_optional(path: &Path) -> Result<Option<String>, PkiError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(PkiError::File { action: "read", path: path.to_owned(), source }),
    }
}
