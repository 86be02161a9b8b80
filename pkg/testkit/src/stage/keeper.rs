//! The keeper: outlives the caller, begins each life of the node, and removes every trace after the last.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::process::Stdio;

use copepod_sys::cgroup::{self, Group};
use copepod_sys::process;

use super::Stage;
use crate::TestkitError;
use crate::spec::{EXIT_FAILED, EXIT_REBOOT, NodeSpec};

/// Runs until the node's last life has ended; standard input is the caller's socket, which each life inherits.
pub(super) fn run(spec: &NodeSpec) -> Result<i32, TestkitError> {
    // Away from the caller's terminal: its Ctrl-C must not end the one who cleans up.
    process::new_session()?;
    let group = group(spec)?;
    let result = lives(spec, &group);
    let removed = group.remove();
    if !spec.keep_root {
        remove_root(spec)?;
    }
    removed?;
    result
}

/// The node's cgroup: directly below the root of each hierarchy, so that no limit of the caller's own group applies.
pub(super) fn group(spec: &NodeSpec) -> Result<Group, TestkitError> {
    Ok(Group::new(cgroup::mounted()?, format!("copepod-{}", spec.id)))
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
fn remove_root(spec: &NodeSpec) -> Result<(), TestkitError> {
    match fs::remove_dir_all(&spec.root) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(TestkitError::file("remove", &spec.root, error))
        }
        _ => Ok(()),
    }
}
