//! Entering a container's network namespace and coming back.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{CniError, code};

/// An open network namespace.
#[derive(Debug)]
pub(crate) struct NetNs {
    file: File,
    path: String,
}

impl NetNs {
    /// Opens the namespace at `path`; `None` when it has gone.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, CniError> {
        match File::open(path) {
            Ok(file) => Ok(Some(Self { file, path: path.display().to_string() })),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(CniError::io(format!("open network namespace {}", path.display()), &e)),
        }
    }

    /// Opens the namespace at `path`, which must exist.
    pub(crate) fn require(path: &Path) -> Result<Self, CniError> {
        Self::open(path)?.ok_or_else(|| {
            let details = format!("network namespace {} does not exist", path.display());
            CniError::new(code::UNKNOWN_CONTAINER, "container has no network namespace", details)
        })
    }

    /// Runs `work` inside the namespace. The calling thread comes back before this returns.
    pub(crate) fn enter<T>(&self, work: impl FnOnce() -> Result<T, CniError>) -> Result<T, CniError> {
        let home =
            File::open("/proc/thread-self/ns/net").map_err(|e| CniError::io("open our own namespace", &e))?;
        join(&self.file).map_err(|e| CniError::io(format!("enter network namespace {}", self.path), &e))?;
        let result = work();
        join(&home).map_err(|e| CniError::io("leave the container's namespace", &e))?;
        result
    }

    /// The descriptor's number, for requests that name a namespace.
    pub(crate) fn raw_fd(&self) -> std::os::fd::RawFd {
        use std::os::fd::AsRawFd;
        self.file.as_raw_fd()
    }
}

fn join(file: &File) -> std::io::Result<()> {
    Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
}
