//! The keeper: outlives the caller, begins each life of the node, and removes every trace after the last.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Stdio;

use copepod_sys::cgroup::{self, Group};
use copepod_sys::process;

use super::Stage;
use crate::TestkitError;
use crate::spec::{EXIT_FAILED, EXIT_REBOOT, NodeSpec};

/// What names of roots and cgroups begin with.
pub(crate) const PREFIX: &str = "copepod-";
/// The file in a root that its keeper holds a lock on.
const LOCK: &str = "keeper.lock";

/// Runs until the node's last life has ended; standard input is the caller's socket, which each life inherits.
pub(super) fn run(spec: &NodeSpec) -> Result<i32, TestkitError> {
    // Away from the caller's terminal: its Ctrl-C must not end the one who cleans up.
    process::new_session()?;
    // What others left is no reason not to start.
    if let Err(error) = sweep(&spec.root) {
        super::report(&error.chain());
    }
    let lock = lock(&spec.root)?;
    let group = group(spec)?;
    let result = lives(spec, &group);
    let removed = group.remove();
    if spec.keep_root {
        let path = spec.root.join(LOCK);
        fs::remove_file(&path).map_err(|e| TestkitError::file("remove", path, e))?;
    } else {
        remove_tree(&spec.root)?;
    }
    drop(lock);
    removed?;
    result
}

/// The node's cgroup: directly below the root of each hierarchy, so that no limit of the caller's own group applies.
pub(super) fn group(spec: &NodeSpec) -> Result<Group, TestkitError> {
    group_called(&format!("{PREFIX}{}", spec.id))
}

fn group_called(name: &str) -> Result<Group, TestkitError> {
    Ok(Group::new(cgroup::mounted()?, name))
}

/// Takes the lock that says this root has a keeper. It appears under its name only when it is taken.
fn lock(root: &Path) -> Result<File, TestkitError> {
    let path = root.join(LOCK);
    let unfinished = path.with_extension("unfinished");
    let take = || -> io::Result<File> {
        let file = File::create(&unfinished)?;
        file.lock()?;
        fs::rename(&unfinished, &path)?;
        Ok(file)
    };
    take().map_err(|e| TestkitError::file("lock", &path, e))
}

/// Removes what keepers that were killed have left beside `root`: a lock that nobody holds marks it.
fn sweep(root: &Path) -> Result<(), TestkitError> {
    let Some(Ok(neighbours)) = root.parent().map(fs::read_dir) else { return Ok(()) };
    for neighbour in neighbours.filter_map(Result::ok) {
        let name = neighbour.file_name().to_string_lossy().into_owned();
        let Ok(lock) = File::open(neighbour.path().join(LOCK)) else { continue };
        if name.starts_with(PREFIX) && lock.try_lock().is_ok() {
            group_called(&name)?.remove()?;
            remove_tree(&neighbour.path())?;
        }
    }
    Ok(())
}

fn lives(spec: &NodeSpec, group: &Group) -> Result<i32, TestkitError> {
    loop {
        group.create()?;
        let socket = io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map_err(|source| TestkitError::Start { program: "boot".to_string(), source })?;
        let mut boot = Stage::Boot.command(spec);
        process::die_with_parent(&mut boot).stdin(Stdio::from(socket));
        let status =
            boot.status().map_err(|source| TestkitError::Start { program: "boot".to_string(), source })?;
        // Cgroups go with each life: a machine that reboots has none left over.
        group.remove()?;
        match status.code() {
            Some(EXIT_REBOOT) => {}
            code => return Ok(code.unwrap_or(EXIT_FAILED)),
        }
    }
}

/// Everything mounted below it was mounted in namespaces that are gone, so this is a plain tree of files.
fn remove_tree(root: &Path) -> Result<(), TestkitError> {
    match fs::remove_dir_all(root) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(TestkitError::file("remove", root, error))
        }
        _ => Ok(()),
    }
}
