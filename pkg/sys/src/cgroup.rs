//! Control groups, version 1 and 2: which hierarchies there are, and groups that span all of them.
//!
//! On version 2 there is one hierarchy; on version 1 one for each controller; hybrid machines have both. A [`Group`]
//! hides the difference: one relative path, made, entered and removed in every hierarchy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::SysError;
use crate::mount::{self, MountInfo};

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Version 1: its controllers (`cpu`, `cpuacct`; `name=systemd` for a bare one). Empty on version 2.
    pub controllers: Vec<String>,
}

impl Hierarchy {
    /// Whether this is the version 2 hierarchy.
    #[must_use]
    pub fn is_unified(&self) -> bool {
        self.controllers.is_empty()
    }
}

/// Which version limits resources here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Each controller is a hierarchy; a version 2 tree without controllers may stand beside them.
    V1,
    /// Version 2 alone.
    V2,
}

/// Words of a version 1 mount's options that are not controllers.
const NOT_CONTROLLERS: &[&str] =
    &["rw", "ro", "xattr", "clone_children", "noprefix", "cpuset_v2_mode", "favordynmods", "release_agent"];

/// The hierarchies in a mount table.
#[must_use]
pub fn hierarchies(table: &[MountInfo]) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for mount in table {
        let controllers = match mount.kind.as_str() {
            "cgroup2" => Vec::new(),
            "cgroup" => v1_controllers(&mount.super_options),
            _ => continue,
        };
        // The last mount on a point is the one seen; a hierarchy mounted twice is one hierarchy.
        found.retain(|h| h.mount_point != mount.mount_point);
        if !found.iter().any(|h| h.controllers == controllers) {
            found.push(Hierarchy { mount_point: mount.mount_point.clone(), controllers });
        }
    }
    found
}

fn v1_controllers(options: &str) -> Vec<String> {
    let is_controller = |word: &&str| {
        let key = word.split('=').next().unwrap_or_default();
        !NOT_CONTROLLERS.contains(&key)
    };
    options.split(',').filter(is_controller).map(str::to_string).collect()
}

/// The hierarchies of this machine, as the calling process sees them.
///
/// # Errors
/// `/proc` is not mounted.
pub fn mounted() -> Result<Vec<Hierarchy>, SysError> {
    Ok(hierarchies(&mount::table()?))
}

/// Which version limits resources, given the hierarchies.
#[must_use]
pub fn version(hierarchies: &[Hierarchy]) -> Version {
    let v1 = hierarchies.iter().any(|h| h.controllers.iter().any(|c| !c.starts_with("name=")));
    if v1 { Version::V1 } else { Version::V2 }
}

/// A group of the same path in every hierarchy.
#[derive(Clone, Debug)]
pub struct Group {
    hierarchies: Vec<Hierarchy>,
    path: PathBuf,
}

impl Group {
    /// The group at `path`, relative to each hierarchy's mount point; nothing is made yet.
    #[must_use]
    pub fn new(hierarchies: Vec<Hierarchy>, path: impl Into<PathBuf>) -> Self {
        Self { hierarchies, path: path.into() }
    }

    /// A group below this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        Self { hierarchies: self.hierarchies.clone(), path: self.path.join(name) }
    }

    /// The group's directory in each hierarchy.
    pub fn directories(&self) -> impl Iterator<Item = PathBuf> {
        self.hierarchies.iter().map(|h| h.mount_point.join(&self.path))
    }

    /// Makes the group in every hierarchy; groups that exist already are kept.
    ///
    /// # Errors
    /// A directory cannot be made.
    pub fn create(&self) -> Result<(), SysError> {
        for directory in self.directories() {
            fs::create_dir_all(&directory).map_err(|e| SysError::path("create cgroup", &directory, e))?;
            inherit_cpuset(&directory)?;
        }
        Ok(())
    }

    /// Moves the process `pid` (0 is the caller) into the group in every hierarchy.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn attach(&self, pid: u32) -> Result<(), SysError> {
        for directory in self.directories() {
            let procs = directory.join("cgroup.procs");
            fs::write(&procs, pid.to_string()).map_err(|e| SysError::path("join cgroup", &procs, e))?;
        }
        Ok(())
    }

    /// The processes in the group and below it, in all hierarchies, each once. A group that is gone has none.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        let mut pids: Vec<i32> =
            self.directories().flat_map(|directory| processes_below(&directory)).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Removes the group and all below it in every hierarchy; what is already gone is fine.
    ///
    /// # Errors
    /// A group still holds processes (`EBUSY`).
    pub fn remove(&self) -> Result<(), SysError> {
        self.directories().try_for_each(|directory| {
            remove_tree(&directory).map_err(|e| SysError::path("remove cgroup", &directory, e))
        })
    }
}

/// A new version 1 cpuset has neither processors nor memory nodes, and then nothing can enter it.
fn inherit_cpuset(directory: &Path) -> Result<(), SysError> {
    for name in ["cpuset.cpus", "cpuset.mems"] {
        let file = directory.join(name);
        let empty = |text: io::Result<String>| text.is_ok_and(|t| t.trim().is_empty());
        let is_v1 = directory.join("cpuset.memory_migrate").exists();
        if is_v1 && empty(fs::read_to_string(&file)) {
            let Some(parent) = directory.parent() else { continue };
            inherit_cpuset(parent)?;
            let value =
                fs::read_to_string(parent.join(name)).map_err(|e| SysError::path("read", &file, e))?;
            fs::write(&file, value.trim()).map_err(|e| SysError::path("write", &file, e))?;
        }
    }
    Ok(())
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter_map(Result::ok).filter(is_dir).map(|entry| entry.path()).collect()
}

fn processes_below(directory: &Path) -> Vec<i32> {
    let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    let own = text.lines().filter_map(|line| line.parse().ok());
    own.chain(children(directory).iter().flat_map(|child| processes_below(child))).collect()
}

fn remove_tree(directory: &Path) -> io::Result<()> {
    for child in children(directory) {
        remove_tree(&child)?;
    }
    match fs::remove_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
        32 30 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset,clone_children\n\
        33 30 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
        34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn hybrid_machines_have_both_versions_and_count_as_v1() {
        let found = hierarchies(&mount::parse_table(HYBRID));
        let names: Vec<_> = found.iter().map(|h| h.controllers.join(",")).collect();
        assert_eq!(names, ["cpu,cpuacct", "cpuset", "name=systemd", ""]);
        assert!(found[3].is_unified());
        assert_eq!(version(&found), Version::V1);
    }

    #[test]
    fn a_bare_named_hierarchy_does_not_make_v1() {
        let text = HYBRID.lines().filter(|l| !l.contains("cpu")).collect::<Vec<_>>().join("\n");
        assert_eq!(version(&hierarchies(&mount::parse_table(&text))), Version::V2);
    }

    #[test]
    fn the_upper_of_two_mounts_on_one_point_counts() {
        let text = "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n2 1 0:2 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(hierarchies(&mount::parse_table(text)).len(), 1);
    }
}
