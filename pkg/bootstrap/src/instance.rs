//! One agent per node: a lock that dies with its holder, and its process id for those who want to stop it.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::PathBuf;

use copepod_config::Layout;
use rustix::fs::{FlockOperation, flock};

use crate::error::{BootstrapError, file};
use crate::write::make_dir;

/// The lock of the running agent; released when dropped or when the process ends, however it ends.
#[derive(Debug)]
pub struct Instance {
    _lock: File,
}

impl Instance {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`BootstrapError::AlreadyRunning`] with the holder's process id.
    pub fn acquire(layout: &Layout) -> Result<Self, BootstrapError> {
        make_dir(&layout.run())?;
        let path = lock_path(layout);
        let mut lock = open(&path)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let pid = read_pid(&mut lock).unwrap_or(0);
            return Err(BootstrapError::AlreadyRunning { pid, lock: path });
        }
        lock.set_len(0).map_err(file("write", &path))?;
        write!(lock, "{}", std::process::id()).map_err(file("write", &path))?;
        Ok(Self { _lock: lock })
    }

    /// The process id of the agent that holds the lock; `None` when none runs.
    ///
    /// # Errors
    /// The lock file cannot be opened for another reason than being absent.
    pub fn running(layout: &Layout) -> Result<Option<i32>, BootstrapError> {
        let path = lock_path(layout);
        if !path.exists() {
            return Ok(None);
        }
        let mut lock = open(&path)?;
        if flock(&lock, FlockOperation::NonBlockingLockShared).is_ok() {
            return Ok(None);
        }
        Ok(read_pid(&mut lock))
    }
}

fn lock_path(layout: &Layout) -> PathBuf {
    layout.run().join("copepod.pid")
}

fn open(path: &PathBuf) -> Result<File, BootstrapError> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).open(path).map_err(file("open", path))
}

fn read_pid(lock: &mut File) -> Option<i32> {
    let mut text = String::new();
    lock.rewind().ok()?;
    lock.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_about_the_first() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        assert_eq!(Instance::running(&layout).unwrap(), None);
        let first = Instance::acquire(&layout).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(Instance::running(&layout).unwrap(), Some(own));
        assert!(
            matches!(Instance::acquire(&layout), Err(BootstrapError::AlreadyRunning { pid, .. }) if pid == own)
        );
        drop(first);
        assert_eq!(Instance::running(&layout).unwrap(), None);
    }
}
