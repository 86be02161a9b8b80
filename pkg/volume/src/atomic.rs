//! The atomic writer: a directory of files that changes as a whole.
//!
//! Files live in a timestamped directory; `..data` points to it, and each top-level name points through `..data`.
//! Renaming a new `..data` over the old one is the single step that a reader can see (upstream's `AtomicWriter`, whose
//! names other software knows).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Component, Path, PathBuf};

use crate::error::VolumeError;

/// One file of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The contents.
    pub data: Vec<u8>,
    /// The mode bits.
    pub mode: u32,
    /// The owner, when it is not root: the pod's user may read its own token.
    pub owner: Option<u32>,
}

/// Relative path → file.
pub type Payload = BTreeMap<String, File>;

const DATA: &str = "..data";
const DATA_NEW: &str = "..data_tmp";

/// Makes `dir` hold exactly `payload`; says whether anything changed. `stamp` names the new version's directory and
/// must differ between calls (a time). `prepare` may change ownership and modes of the new directory before it is seen.
///
/// # Errors
/// A path that would leave the directory is refused; otherwise the system's refusals.
pub fn write(
    dir: &Path,
    payload: &Payload,
    stamp: &str,
    prepare: impl FnOnce(&Path) -> Result<(), VolumeError>,
) -> Result<bool, VolumeError> {
    for path in payload.keys() {
        check_path(path)?;
    }
    let current = fs::read_link(dir.join(DATA)).ok().map(|name| dir.join(name));
    if current.as_deref().is_some_and(|version| holds(version, payload)) {
        link_names(dir, payload)?;
        return Ok(false);
    }
    let version_name = format!("..{stamp}");
    let version = dir.join(&version_name);
    write_version(&version, payload)?;
    prepare(&version)?;
    swap(dir, &version_name)?;
    link_names(dir, payload)?;
    remove_stale(dir, payload, &version_name)?;
    Ok(true)
}

fn check_path(path: &str) -> Result<(), VolumeError> {
    let bad = |why: &str| Err(VolumeError::Invalid(format!("invalid path {path:?}: {why}")));
    if path.is_empty() {
        return bad("must not be empty");
    }
    if path.starts_with("..") {
        return bad("must not start with '..'");
    }
    if Path::new(path).components().any(|c| !matches!(c, Component::Normal(_) | Component::CurDir)) {
        return bad("must be relative and not contain '..'");
    }
    Ok(())
}

/// Whether a version holds the payload exactly.
fn holds(version: &Path, payload: &Payload) -> bool {
    let mut present = BTreeSet::new();
    collect(version, Path::new(""), &mut present);
    present.len() == payload.len()
        && payload.iter().all(|(path, file)| {
            present.contains(Path::new(path))
                && fs::read(version.join(path)).is_ok_and(|data| data == file.data)
        })
}

fn collect(dir: &Path, prefix: &Path, into: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = prefix.join(entry.file_name());
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            collect(&entry.path(), &path, into);
        } else {
            into.insert(path);
        }
    }
}

fn write_version(version: &Path, payload: &Payload) -> Result<(), VolumeError> {
    fs::create_dir_all(version).map_err(VolumeError::io("create", version))?;
    set_mode(version, 0o755)?;
    for (path, file) in payload {
        let full = version.join(path);
        if let Some(parent) = full.parent() {
            fs::create_dir_all(parent).map_err(VolumeError::io("create", parent))?;
        }
        fs::write(&full, &file.data).map_err(VolumeError::io("write", &full))?;
        // The mode is set apart from the write, so that the umask has no say.
        set_mode(&full, file.mode)?;
        if let Some(owner) = file.owner {
            chown(&full, Some(owner), None).map_err(VolumeError::io("change the owner of", &full))?;
        }
    }
    Ok(())
}

fn set_mode(path: &Path, mode: u32) -> Result<(), VolumeError> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(VolumeError::io("set the mode of", path))
}

fn swap(dir: &Path, version_name: &str) -> Result<(), VolumeError> {
    let (new, data) = (dir.join(DATA_NEW), dir.join(DATA));
    if new.symlink_metadata().is_ok() {
        fs::remove_file(&new).map_err(VolumeError::io("remove", &new))?;
    }
    symlink(version_name, &new).map_err(VolumeError::io("link", &new))?;
    fs::rename(&new, &data).map_err(VolumeError::io("replace", &data))
}

/// The names a user sees: the first component of each path.
fn top_names(payload: &Payload) -> BTreeSet<&str> {
    payload.keys().filter_map(|path| path.split('/').find(|part| !part.is_empty())).collect()
}

fn link_names(dir: &Path, payload: &Payload) -> Result<(), VolumeError> {
    for name in top_names(payload) {
        let link = dir.join(name);
        if link.symlink_metadata().is_err() {
            symlink(Path::new(DATA).join(name), &link).map_err(VolumeError::io("link", &link))?;
        }
    }
    Ok(())
}

fn remove_stale(dir: &Path, payload: &Payload, version_name: &str) -> Result<(), VolumeError> {
    let names = top_names(payload);
    let entries = fs::read_dir(dir).map_err(VolumeError::io("read", dir))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let path = entry.path();
        if name == DATA || name == version_name || names.contains(name) {
            continue;
        }
        let removed = if name.starts_with("..") && path.is_dir() {
            fs::remove_dir_all(&path)
        } else if path.is_symlink() {
            fs::remove_file(&path)
        } else {
            continue;
        };
        removed.map_err(VolumeError::io("remove", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(files: &[(&str, &str)]) -> Payload {
        let file = |data: &str| File { data: data.as_bytes().to_vec(), mode: 0o640, owner: None };
        files.iter().map(|(path, data)| ((*path).to_owned(), file(data))).collect()
    }

    #[test]
    fn versions_replace_each_other_and_nothing_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let write = |p: &Payload, stamp: &str| write(dir.path(), p, stamp, |_| Ok(())).unwrap();
        let first = payload(&[("a", "1"), ("deep/er/b", "2")]);
        assert!(write(&first, "t1"));
        assert!(!write(&first, "t2"), "unchanged");
        assert_eq!(fs::read_to_string(dir.path().join("deep/er/b")).unwrap(), "2");
        assert_eq!(fs::metadata(dir.path().join("a")).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(write(&payload(&[("c", "3")]), "t3"));
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["..data", "..t3", "c"]);
    }

    #[test]
    fn paths_that_leave_the_directory_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["../x", "/etc/x", "a/../../x", "..x", ""] {
            let error = write(dir.path(), &payload(&[(path, "")]), "t", |_| Ok(())).unwrap_err();
            assert!(error.permanent(), "{path}: {error}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
