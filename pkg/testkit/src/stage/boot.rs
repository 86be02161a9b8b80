//! One life of a node: a PID namespace with init as its first process.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use copepod_sys::namespace::{self, Namespace};
use copepod_sys::process;

use super::Stage;
use crate::TestkitError;
use crate::node::control;
use crate::spec::{EXIT_FAILED, NodeSpec, Reply};

/// Starts init and passes on how it ended.
pub(super) fn run(spec: &NodeSpec) -> Result<i32, TestkitError> {
    let start = |source| TestkitError::Start { program: "init".to_string(), source };
    // Only children are moved by this, and a PID namespace dies with its first process: hence a process for each life.
    namespace::unshare(&[Namespace::Pid])?;
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(start)?;
    let mut caller = UnixStream::from(socket.try_clone().map_err(start)?);
    let mut init = Stage::Init.command(spec);
    let mut init = process::die_with_parent(&mut init).stdin(Stdio::from(socket)).spawn().map_err(start)?;
    let pid = i32::try_from(init.id()).expect("Linux process ids are below 2^22");
    // Init cannot know its number on the host; the caller needs it to join the namespaces.
    control::send(&mut caller, &Reply::Born { init: pid })?;
    let status = init.wait().map_err(start)?;
    Ok(status.code().unwrap_or(EXIT_FAILED))
}
