//! Child processes. Every program we start is started through here.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::SysError;

/// A command builder for `program`; blocking form.
#[expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]
pub fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// A command builder for `program` whose child is waited for without blocking a thread.
#[expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]
pub fn async_command(program: impl AsRef<OsStr>) -> tokio::process::Command {
    tokio::process::Command::new(program)
}

/// Makes the child of `command` receive SIGKILL when the thread that starts it ends.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let hook = || Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: the hook runs between fork and exec, where only async-signal-safe calls are allowed: it is one system
    // call, prctl, and neither allocates nor takes a lock.
    #[expect(unsafe_code, reason = "there is no safe way to set the signal of a child")]
    unsafe {
        command.pre_exec(hook)
    }
}

/// Opens a handle on the process `pid` that stays valid when the number is used again.
///
/// # Errors
/// There is no such process.
pub fn pidfd(pid: i32) -> Result<OwnedFd, SysError> {
    let pid = known(pid)?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty())
        .map_err(|e| SysError::call("open a process handle", e))
}

/// Sends `signal` (a number, see signal(7)) to the process `pid`; one that is already gone is no error.
///
/// # Errors
/// The kernel's refusal, or a number that is no signal.
pub fn kill(pid: i32, signal: i32) -> Result<(), SysError> {
    let named = Signal::from_named_raw(signal);
    let signal = named.ok_or_else(|| SysError::call("send a signal", rustix::io::Errno::INVAL))?;
    match rustix::process::kill_process(known(pid)?, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(SysError::call("send a signal", error)),
    }
}

/// Whether a process `pid` exists (a zombie does).
#[must_use]
pub fn exists(pid: i32) -> bool {
    known(pid).is_ok_and(|pid| {
        let answer = rustix::process::test_kill_process(pid);
        matches!(answer, Ok(()) | Err(rustix::io::Errno::PERM))
    })
}

/// A child that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its process id.
    pub pid: i32,
    /// Its exit code; 128 and the signal's number where a signal ended it.
    pub code: i32,
}

/// Collects one ended child, whichever it is, without waiting; `None` when there is none now.
///
/// It also takes children that somebody else waits for, so it is for processes that are an init and nothing else.
#[must_use]
pub fn reap() -> Option<Exit> {
    let (pid, status) = rustix::process::wait(WaitOptions::NOHANG).ok().flatten()?;
    Some(Exit { pid: pid.as_raw_nonzero().get(), code: exit_code(status) })
}

fn exit_code(status: WaitStatus) -> i32 {
    const SIGNALLED: i32 = 128;
    status.exit_status().or_else(|| status.terminating_signal().map(|s| SIGNALLED + s)).unwrap_or(SIGNALLED)
}

/// Starts a new session, away from the caller's terminal and process group.
///
/// # Errors
/// The caller leads a process group already.
pub fn new_session() -> Result<(), SysError> {
    rustix::process::setsid().map(|_| ()).map_err(|e| SysError::call("start a session", e))
}

/// Sets the host name of the calling process's UTS namespace.
///
/// # Errors
/// The kernel's refusal.
pub fn set_host_name(name: &str) -> Result<(), SysError> {
    rustix::system::sethostname(name.as_bytes()).map_err(|e| SysError::call("set the host name", e))
}

/// Whether the caller is root, who alone may make namespaces and mounts.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn known(pid: i32) -> Result<Pid, SysError> {
    // Zero and negative numbers would mean groups of processes.
    let pid = if pid > 0 { Pid::from_raw(pid) } else { None };
    pid.ok_or_else(|| SysError::call("use a process id", rustix::io::Errno::SRCH))
}

/// Waits, without polling, until process `pid` has ended; returns at once when it is gone already. A child of the
/// caller is collected.
///
/// # Errors
/// The kernel cannot watch processes (before Linux 5.3).
pub async fn exited(pid: i32) -> Result<(), SysError> {
    let Ok(handle) = pidfd(pid) else { return Ok(()) };
    let watch = |source: std::io::Error| SysError::call("watch a process", source);
    #[expect(
        unsafe_code,
        reason = "the registration must not outlive the descriptor, which the compiler cannot see"
    )]
    // SAFETY: `OwnedFd` owns its descriptor, returns the same one each time, and lives inside the registration.
    let handle = unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) }
        .map_err(|error| watch(error.into()))?;
    let _ready = handle.readable().await.map_err(watch)?;
    if let Some(child) = Pid::from_raw(pid) {
        // Only a parent may collect; for anybody else this fails, and there is nothing to collect.
        let _collected = rustix::process::waitpid(Some(child), WaitOptions::NOHANG).ok();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_mean_groups_are_refused() {
        assert!(kill(0, 15).is_err());
        assert!(kill(-1, 15).is_err());
        assert!(pidfd(0).is_err());
        assert!(!exists(-1));
    }

    #[test]
    fn a_handle_outlives_nothing_and_a_signal_arrives() {
        let mut child = die_with_parent(&mut command("sleep")).arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(exists(pid));
        pidfd(pid).unwrap();
        assert!(kill(pid, 999).is_err());
        kill(pid, 15).unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(pidfd(pid).is_err());
        kill(pid, 15).unwrap();
    }
}
