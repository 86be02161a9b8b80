//! What the node sees of the file system, and what of it is the host's.
//!
//! [`plan`] decides on facts about the host; [`apply`] mounts. Nothing is ever created on the host's own file systems:
//! mount points that are missing there are made inside an overlay or left out.

use std::fs;
use std::path::{Path, PathBuf};

use copepod_sys::cgroup::Hierarchy;
use copepod_sys::mount::{self, Propagation};

use crate::TestkitError;
use crate::spec::NodeSpec;

/// Where the outside client's network namespace can be joined, inside the node.
pub(crate) const LAN_NAMESPACE: &str = "/run/netns/lan";

/// Directories whose content the node starts with, and may change for itself.
const OVERLAID: &[&str] = &["/etc", "/opt", "/usr/local"];

/// Directories that are the node's alone and start empty. `/var/lib` is last: the node's root may lie below it.
const PRIVATE: &[&str] =
    &["/etc/kubernetes", "/etc/cni", "/etc/containerd", "/etc/copepod", "/opt/cni", "/var/log", "/var/lib"];

/// Directories that a reboot empties, with the options of their tmpfs.
const VOLATILE: &[(&str, &str)] = &[("/run", "mode=0755"), ("/dev/shm", "mode=1777")];

/// Settings of the whole machine that a kubelet writes at its start. The node gets copies to write to.
const SHIELDED: &[&str] = &[
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/panic_on_oom",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/panic_on_oops",
    "/proc/sys/kernel/keys/root_maxkeys",
    "/proc/sys/kernel/keys/root_maxbytes",
    "/proc/sys/fs/inotify/max_user_instances",
    "/proc/sys/fs/inotify/max_user_watches",
];

/// Where cgroup hierarchies are mounted by convention.
const CGROUP: &str = "/sys/fs/cgroup";

/// One change of the mount table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Overlay {
        on: PathBuf,
        upper: PathBuf,
        work: PathBuf,
    },
    /// `from` is made if missing; so is `on`, which by then lies in an overlay if the host has not got it.
    Bind {
        from: PathBuf,
        on: PathBuf,
    },
    /// A copy of the file `of`, mounted over it.
    Shield {
        of: PathBuf,
        copy: PathBuf,
    },
    New {
        kind: &'static str,
        on: PathBuf,
        options: String,
    },
}

/// The steps for a node of `spec` on a host with the cgroup `hierarchies`; `exists` asks the host.
pub(super) fn plan(spec: &NodeSpec, hierarchies: &[Hierarchy], exists: impl Fn(&Path) -> bool) -> Vec<Step> {
    let mut steps = Vec::new();
    let overlaid: Vec<&str> = OVERLAID.iter().copied().filter(|dir| exists(Path::new(dir))).collect();
    for dir in &overlaid {
        let own = below(&spec.root.join("overlay"), dir);
        steps.push(Step::Overlay {
            on: PathBuf::from(dir),
            upper: own.join("upper"),
            work: own.join("work"),
        });
    }
    for (dir, options) in VOLATILE.iter().filter(|(dir, _)| exists(Path::new(dir))) {
        steps.push(Step::New { kind: "tmpfs", on: PathBuf::from(dir), options: (*options).to_string() });
    }
    steps.push(Step::New { kind: "proc", on: PathBuf::from("/proc"), options: String::new() });
    for file in SHIELDED.iter().filter(|file| exists(Path::new(file))) {
        steps.push(Step::Shield { of: PathBuf::from(file), copy: below(&spec.root.join("shield"), file) });
    }
    steps.push(Step::New { kind: "sysfs", on: PathBuf::from("/sys"), options: String::new() });
    steps.extend(plan_cgroups(hierarchies));
    for dir in PRIVATE {
        let in_overlay = overlaid.iter().any(|upper| Path::new(dir).starts_with(upper));
        if in_overlay || exists(Path::new(dir)) {
            steps.push(Step::Bind { from: below(&spec.root.join("private"), dir), on: PathBuf::from(dir) });
        }
    }
    steps
}

/// A new sysfs comes without cgroups, and kubelet and runc stop without them. Mounted from inside the cgroup namespace,
/// every hierarchy begins at the node's own group.
fn plan_cgroups(hierarchies: &[Hierarchy]) -> Vec<Step> {
    if let [only] = hierarchies
        && only.is_unified()
    {
        return vec![Step::New { kind: "cgroup2", on: PathBuf::from(CGROUP), options: String::new() }];
    }
    let tmpfs = Step::New { kind: "tmpfs", on: PathBuf::from(CGROUP), options: "mode=0755".to_string() };
    let mounted = hierarchies.iter().map(|hierarchy| {
        let name = hierarchy.mount_point.file_name().unwrap_or_default();
        let on = Path::new(CGROUP).join(name);
        if hierarchy.is_unified() {
            return Step::New { kind: "cgroup2", on, options: String::new() };
        }
        let controllers = hierarchy.controllers.join(",");
        let named = controllers.starts_with("name=");
        Step::New {
            kind: "cgroup",
            on,
            options: if named { format!("none,{controllers}") } else { controllers },
        }
    });
    std::iter::once(tmpfs).chain(mounted).collect()
}

fn below(dir: &Path, absolute: &str) -> PathBuf {
    dir.join(absolute.trim_start_matches('/'))
}

/// Mounts everything, in a mount namespace that the caller has just made.
pub(super) fn apply(spec: &NodeSpec, steps: &[Step]) -> Result<(), TestkitError> {
    let root = Path::new("/");
    // First nothing may leak to the host; afterwards the node is a machine of its own, where runtimes expect sharing.
    mount::propagate(root, Propagation::Private)?;
    for step in steps {
        apply_step(step)?;
    }
    write_identity(spec)?;
    mount::propagate(root, Propagation::Shared)?;
    Ok(())
}

fn apply_step(step: &Step) -> Result<(), TestkitError> {
    match step {
        Step::Overlay { on, upper, work } => {
            make_dir(upper)?;
            make_dir(work)?;
            mount::overlay(on, upper, work, on)?;
        }
        Step::Bind { from, on } => {
            make_dir(from)?;
            make_dir(on)?;
            mount::bind(from, on)?;
        }
        Step::Shield { of, copy } => {
            make_dir(copy.parent().unwrap_or(copy))?;
            let value = fs::read(of).map_err(|e| TestkitError::file("read", of, e))?;
            fs::write(copy, value).map_err(|e| TestkitError::file("write", copy, e))?;
            mount::bind(copy, of)?;
        }
        Step::New { kind, on, options } => {
            make_dir(on)?;
            mount::new(kind, on, options)?;
        }
    }
    Ok(())
}

fn make_dir(path: &Path) -> Result<(), TestkitError> {
    fs::create_dir_all(path).map_err(|e| TestkitError::file("create", path, e))
}

/// The files that say who this node is; they are in the overlay by now.
fn write_identity(spec: &NodeSpec) -> Result<(), TestkitError> {
    let name = &spec.name;
    let hosts = format!("127.0.0.1 localhost\n::1 localhost ip6-localhost\n{} {name}\n", spec.node_address);
    let files = [
        ("/etc/hostname", format!("{name}\n")),
        ("/etc/hosts", hosts),
        // The outside client is the only neighbour that could answer.
        ("/etc/resolv.conf", format!("nameserver {}\n", spec.lan_address)),
    ];
    for (path, text) in files {
        // It may be a link to a place that the node does not have.
        match fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(TestkitError::file("replace", path, error));
            }
            _ => fs::write(path, text).map_err(|e| TestkitError::file("write", path, e))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
