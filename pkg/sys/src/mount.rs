//! Mounts, with errors that name the mount point.

use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use crate::SysError;

/// Mounts a new file system of type `kind` with the comma separated options `data` on `target`.
///
/// # Errors
/// The kernel's refusal.
pub fn new(kind: &str, target: &Path, data: &str) -> Result<(), SysError> {
    let data = std::ffi::CString::new(data)
        .map_err(|e| SysError::path("mount on", target, std::io::Error::from(e)))?;
    rustix::mount::mount(kind, target, kind, MountFlags::empty(), data.as_c_str())
        .map_err(|e| SysError::path("mount a new file system on", target, e))
}

/// Mounts `upper` over `lower` on `target`; writes go to `upper`, and `work` is the kernel's scratch directory beside it.
///
/// # Errors
/// The kernel's refusal: `EINVAL` where `upper` is itself on an overlay.
pub fn overlay(lower: &Path, upper: &Path, work: &Path, target: &Path) -> Result<(), SysError> {
    let data =
        format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
    new("overlay", target, &data)
}

/// Makes `source` (without what is mounted below it) visible at `target` as well.
///
/// # Errors
/// The kernel's refusal.
pub fn bind(source: &Path, target: &Path) -> Result<(), SysError> {
    rustix::mount::mount_bind(source, target).map_err(|e| SysError::path("bind mount on", target, e))
}

/// Makes `source` and all that is mounted below it visible at `target` as well.
///
/// # Errors
/// The kernel's refusal.
pub fn bind_recursive(source: &Path, target: &Path) -> Result<(), SysError> {
    rustix::mount::mount_bind_recursive(source, target)
        .map_err(|e| SysError::path("bind mount on", target, e))
}

/// Makes the mount at `target` read-only for whoever reaches it through `target`.
///
/// # Errors
/// The kernel's refusal.
pub fn make_read_only(target: &Path) -> Result<(), SysError> {
    rustix::mount::mount_remount(target, MountFlags::BIND | MountFlags::RDONLY, "")
        .map_err(|e| SysError::path("make read-only", target, e))
}

/// How mounts made in one place appear in its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Not at all.
    Private,
    /// In both directions.
    Shared,
    /// From the original to the copy.
    Slave,
}

/// Sets the propagation of the mount at `target` and of all below it.
///
/// # Errors
/// The kernel's refusal.
pub fn propagate(target: &Path, how: Propagation) -> Result<(), SysError> {
    let flag = match how {
        Propagation::Private => MountPropagationFlags::PRIVATE,
        Propagation::Shared => MountPropagationFlags::SHARED,
        Propagation::Slave => MountPropagationFlags::DOWNSTREAM,
    };
    rustix::mount::mount_change(target, flag | MountPropagationFlags::REC)
        .map_err(|e| SysError::path("set the mount propagation of", target, e))
}

/// Unmounts `target` now; whoever still has it open keeps it until he closes it.
///
/// # Errors
/// The kernel's refusal: `EINVAL` where nothing is mounted.
pub fn detach(target: &Path) -> Result<(), SysError> {
    rustix::mount::unmount(target, UnmountFlags::DETACH).map_err(|e| SysError::path("unmount", target, e))
}

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountInfo {
    /// The part of the file system that is mounted (`/` for all of it).
    pub root: PathBuf,
    /// Where.
    pub mount_point: PathBuf,
    /// The file system's type.
    pub kind: String,
    /// What was mounted (a device, or any word).
    pub source: String,
    /// The file system's own options (`rw,memory` for a cgroup v1 hierarchy).
    pub super_options: String,
}

/// The mount table as the calling process sees it.
///
/// # Errors
/// `/proc` is not mounted.
pub fn table() -> Result<Vec<MountInfo>, SysError> {
    let path = Path::new("/proc/self/mountinfo");
    let text = std::fs::read_to_string(path).map_err(|e| SysError::path("read", path, e))?;
    Ok(parse_table(&text))
}

/// Parses mountinfo's text; lines it does not understand are left out.
#[must_use]
pub fn parse_table(text: &str) -> Vec<MountInfo> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<MountInfo> {
    // id parent major:minor root mount-point options [optional fields…] - type source super-options
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let mut file_system = file_system.split(' ');
    Some(MountInfo {
        root: PathBuf::from(unescape(mount.next()?)),
        mount_point: PathBuf::from(unescape(mount.next()?)),
        kind: file_system.next()?.to_string(),
        source: unescape(file_system.next()?),
        super_options: file_system.next()?.to_string(),
    })
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
fn unescape(field: &str) -> String {
    let mut rest = field;
    let mut out = String::with_capacity(field.len());
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        match after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(char::from(byte));
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                out.push('\\');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_lines_are_read_with_and_without_optional_fields() {
        let text = "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n\
                    40 35 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                    garbage\n";
        let table = parse_table(text);
        assert_eq!(table.len(), 2);
        assert_eq!(table[0].mount_point, Path::new("/mnt 2"));
        assert_eq!(table[0].root, Path::new("/mnt1"));
        assert_eq!((table[1].kind.as_str(), table[1].super_options.as_str()), ("cgroup", "rw,memory"));
    }

    #[test]
    fn a_lone_backslash_stays() {
        assert_eq!(unescape(r"a\b"), r"a\b");
        assert_eq!(unescape(r"\134"), r"\");
        assert_eq!(unescape(r"x\01"), r"x\01");
    }
}
