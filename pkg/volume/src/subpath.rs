//! Sub paths: one part of a volume, reached without following a link out of it.
//!
//! The kernel resolves the path beneath the volume's root (`RESOLVE_BENEATH`), so a link that a container planted
//! cannot lead elsewhere, not even by a race; what it found is bind-mounted by its descriptor.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use copepod_sys::mount;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};

use crate::error::VolumeError;

/// Makes `sub` of the volume at `root` appear at `target`; a missing sub path becomes a directory.
pub(crate) fn bind(root: &Path, sub: &str, target: &Path) -> Result<(), VolumeError> {
    let relative = clean(sub)?;
    let found = open_or_create(root, &relative).map_err(|errno| VolumeError::Io {
        action: "open the sub path",
        path: root.join(&relative),
        why: if errno == rustix::io::Errno::XDEV {
            format!("subpath {sub:?} is not within volume path {}", root.display())
        } else {
            errno.to_string()
        },
    })?;
    prepare_target(&found, target)?;
    let source = PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd()));
    mount::bind_recursive(&source, target).map_err(VolumeError::io("bind the sub path to", target))
}

/// A sub path as a relative path without `..`.
fn clean(sub: &str) -> Result<PathBuf, VolumeError> {
    let path = Path::new(sub);
    if path.is_absolute() {
        return Err(VolumeError::Invalid(format!("error SubPath `{sub}` must not be an absolute path")));
    }
    if path.components().any(|c| c == Component::ParentDir) {
        return Err(VolumeError::Invalid(format!(
            "unable to provision SubPath `{sub}`: must not contain '..'"
        )));
    }
    Ok(path.components().filter(|c| matches!(c, Component::Normal(_))).collect())
}

fn open_or_create(root: &Path, relative: &Path) -> rustix::io::Result<OwnedFd> {
    let open = |dir: &OwnedFd, path: &Path| {
        openat2(dir, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::BENEATH)
    };
    let mut at = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    if relative.as_os_str().is_empty() {
        return Ok(at);
    }
    match open(&at, relative) {
        Err(rustix::io::Errno::NOENT) => {}
        done => return done,
    }
    for part in relative.components() {
        let part = Path::new(part.as_os_str());
        at = match open(&at, part) {
            Err(rustix::io::Errno::NOENT) => {
                // The default mode of a sub path is that of its volume's root for others too: containers of any user.
                mkdirat(&at, part, Mode::from_raw_mode(0o750))?;
                let mode = rustix::fs::fstat(&at)?.st_mode & 0o777;
                let made = open(&at, part)?;
                rustix::fs::chmod(format!("/proc/self/fd/{}", made.as_raw_fd()), Mode::from_raw_mode(mode))?;
                made
            }
            found => found?,
        };
    }
    Ok(at)
}

/// An empty directory or file, whichever the source is, with nothing mounted on it.
fn prepare_target(source: &OwnedFd, target: &Path) -> Result<(), VolumeError> {
    for mounted in crate::empty_dir::mounts_below(target)? {
        mount::detach(&mounted).map_err(VolumeError::io("unmount", &mounted))?;
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(VolumeError::io("create", parent))?;
    }
    let stat = rustix::fs::fstat(source).map_err(VolumeError::io("look at the sub path of", target))?;
    let directory = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
    if target.symlink_metadata().is_ok_and(|m| m.is_dir() != directory) {
        let removed = if directory { fs::remove_file(target) } else { fs::remove_dir(target) };
        removed.map_err(VolumeError::io("remove", target))?;
    }
    if directory {
        fs::create_dir_all(target).map_err(VolumeError::io("create", target))
    } else {
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(false);
        options.open(target).map(drop).map_err(VolumeError::io("create", target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sub_paths_stay_inside() {
        assert_eq!(clean("a/./b/").unwrap(), Path::new("a/b"));
        assert!(clean("/a").is_err() && clean("a/../b").is_err());
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("volume");
        fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("out")).unwrap();
        std::os::unix::fs::symlink("../..", root.join("up")).unwrap();
        assert_eq!(open_or_create(&root, Path::new("out/passwd")).unwrap_err(), rustix::io::Errno::XDEV);
        assert_eq!(open_or_create(&root, Path::new("up")).unwrap_err(), rustix::io::Errno::XDEV);
        open_or_create(&root, Path::new("new/deep")).unwrap();
        assert!(root.join("new/deep").is_dir());
    }
}
