//! A command inside a running node: join its namespaces and cgroup, start the program, pass on signals and the result.

use std::ffi::OsString;
use std::path::Path;

use copepod_sys::cgroup::{self, Group};
use copepod_sys::namespace::{self, Namespace};
use copepod_sys::process;
use tokio::signal::unix::{SignalKind, signal};

use crate::TestkitError;
use crate::spec::EnterSpec;
use crate::stage::mounts::LAN_NAMESPACE;

/// What a shell answers when a program cannot be started.
const NOT_FOUND: i32 = 127;
/// What a shell adds to the number of the signal that ended a program.
const SIGNALLED: i32 = 128;
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// Runs `argv` inside the node and returns its exit code.
pub(super) fn run(spec: &EnterSpec, argv: Vec<OsString>) -> Result<i32, TestkitError> {
    let directory = std::env::current_dir().ok();
    join(spec)?;
    // The caller's directory where the node has it, else the root.
    let kept = directory.is_some_and(|dir| std::env::set_current_dir(dir).is_ok());
    if !kept {
        std::env::set_current_dir("/").map_err(|e| TestkitError::file("enter", "/", e))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| TestkitError::Start { program: "runtime".to_string(), source })?;
    runtime.block_on(supervise(argv))
}

fn join(spec: &EnterSpec) -> Result<(), TestkitError> {
    let init = process::pidfd(spec.init)?;
    // Before the namespaces: inside, the hierarchies begin at the node's own group.
    Group::new(cgroup::mounted()?, &spec.cgroup).attach(0)?;
    let everything =
        [Namespace::Net, Namespace::Mount, Namespace::Pid, Namespace::Uts, Namespace::Cgroup, Namespace::Ipc];
    namespace::join_process(&init, &everything)?;
    if spec.lan {
        let lan = namespace::open(Path::new(LAN_NAMESPACE))?;
        namespace::join_net(std::os::fd::AsFd::as_fd(&lan))?;
    }
    Ok(())
}

async fn supervise(argv: Vec<OsString>) -> Result<i32, TestkitError> {
    let mut argv = argv.into_iter();
    let program = argv.next().unwrap_or_default();
    let mut command = copepod_sys::command(&program);
    process::die_with_parent(&mut command).args(argv);
    let start = |source| TestkitError::Start { program: program.to_string_lossy().into_owned(), source };
    let mut interrupt = signal(SignalKind::interrupt()).map_err(start)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(start)?;
    let mut child = match tokio::process::Command::from(command).spawn() {
        Ok(child) => child,
        Err(source) => {
            super::report(&start(source).chain());
            return Ok(NOT_FOUND);
        }
    };
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    loop {
        let received = tokio::select! {
            status = child.wait() => {
                let status = status.map_err(start)?;
                let signalled = std::os::unix::process::ExitStatusExt::signal(&status).map(|s| SIGNALLED + s);
                return Ok(status.code().or(signalled).unwrap_or(SIGNALLED));
            }
            _ = interrupt.recv() => SIGINT,
            _ = terminate.recv() => SIGTERM,
        };
        if let Some(pid) = pid {
            process::kill(pid, received)?;
        }
    }
}
