//! Linux namespaces: making them, joining them, and running one closure inside one.
//!
//! A namespace belongs to a thread. [`unshare`] and [`join`] therefore act on the calling thread only, and a program
//! that wants to move as a whole does so while it has one thread. [`run_in_net`] is the safe way for everybody else:
//! it uses a thread of its own and the caller stays where it was.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, ThreadNameSpaceType, UnshareFlags};

use crate::SysError;

/// A kind of namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// Links, addresses, routes, rules, sockets.
    Net,
    /// The mount table.
    Mount,
    /// Process ids; takes effect for children started afterwards.
    Pid,
    /// Host name.
    Uts,
    /// The root of the cgroup hierarchies as seen from inside.
    Cgroup,
    /// System V IPC and POSIX message queues.
    Ipc,
}

impl Namespace {
    fn unshare_flag(self) -> UnshareFlags {
        match self {
            Self::Net => UnshareFlags::NEWNET,
            Self::Mount => UnshareFlags::NEWNS,
            Self::Pid => UnshareFlags::NEWPID,
            Self::Uts => UnshareFlags::NEWUTS,
            Self::Cgroup => UnshareFlags::NEWCGROUP,
            Self::Ipc => UnshareFlags::NEWIPC,
        }
    }

    fn join_flag(self) -> ThreadNameSpaceType {
        match self {
            Self::Net => ThreadNameSpaceType::NETWORK,
            Self::Mount => ThreadNameSpaceType::MOUNT,
            Self::Pid => ThreadNameSpaceType::PROCESS_ID,
            Self::Uts => ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME,
            Self::Cgroup => ThreadNameSpaceType::CONTROL_GROUP,
            Self::Ipc => ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION,
        }
    }
}

/// Puts the calling thread into new namespaces.
///
/// # Errors
/// The kernel's refusal; without `CAP_SYS_ADMIN` that is `EPERM`.
pub fn unshare(kinds: &[Namespace]) -> Result<(), SysError> {
    let flags = kinds.iter().fold(UnshareFlags::empty(), |all, kind| all | kind.unshare_flag());
    // SAFETY: file descriptor tables stay shared: no `Namespace` maps to `UnshareFlags::FILES`, the one unsafe flag.
    #[expect(unsafe_code, reason = "the binding marks all flags unsafe for the sake of one")]
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(|e| SysError::call("unshare namespaces", e))
}

/// Puts the calling thread into the `kinds` of namespaces of the process behind `pidfd` (see [`crate::process::pidfd`]),
/// all in one step.
///
/// # Errors
/// The kernel's refusal: the process is gone, or `EINVAL` for [`Namespace::Mount`] in a program with several threads.
pub fn join_process(pidfd: impl AsFd, kinds: &[Namespace]) -> Result<(), SysError> {
    let flags = kinds.iter().fold(ThreadNameSpaceType::empty(), |all, kind| all | kind.join_flag());
    rustix::thread::move_into_thread_name_spaces(pidfd.as_fd(), flags)
        .map_err(|e| SysError::call("join the namespaces of a process", e))
}

/// Opens the network namespace at `path` (`/proc/<pid>/ns/net`, `/run/netns/<name>`).
///
/// # Errors
/// The file cannot be opened.
pub fn open(path: &Path) -> Result<File, SysError> {
    File::open(path).map_err(|e| SysError::path("open namespace", path, e))
}

/// Opens the network namespace of the calling thread.
///
/// # Errors
/// `/proc` is not mounted.
pub fn current_net() -> Result<File, SysError> {
    open(Path::new("/proc/thread-self/ns/net"))
}

/// Puts the calling thread into the network namespace behind `fd`.
///
/// # Errors
/// The kernel's refusal.
pub fn join_net(fd: BorrowedFd<'_>) -> Result<(), SysError> {
    rustix::thread::move_into_link_name_space(fd, Some(LinkNameSpaceType::Network))
        .map_err(|e| SysError::call("join a network namespace", e))
}

/// Runs `work` on a thread of its own inside the network namespace behind `fd`, and returns its result.
///
/// # Errors
/// The namespace cannot be joined, or `work` panicked.
pub fn run_in_net<T, F>(fd: impl AsFd + Send + 'static, work: F) -> Result<T, SysError>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let thread = std::thread::Builder::new()
        .name("netns".to_string())
        .spawn(move || join_net(fd.as_fd()).map(|()| work()))
        .map_err(|e| SysError::call("start a thread", e))?;
    thread
        .join()
        .unwrap_or_else(|_| Err(SysError::call("run in a network namespace", io::Error::other("panicked"))))
}

/// Makes the network namespace behind `fd` reachable as the file `path`, which is created.
/// It then lives until it is unmounted from there.
///
/// # Errors
/// The file cannot be made or mounted on.
pub fn bind_net(fd: BorrowedFd<'_>, path: &Path) -> Result<(), SysError> {
    File::create(path).map_err(|e| SysError::path("create", path, e))?;
    crate::mount::bind(Path::new(&format!("/proc/thread-self/fd/{}", fd.as_raw_fd())), path)
}
