//! Kernel settings under `/proc/sys/net`, which show the network namespace of the thread that reads them.

use std::path::PathBuf;

use crate::error::CniError;

/// Whether a setting may be missing or refused (families that are switched off, read-only `/proc/sys`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Required,
    Optional,
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys/net").join(name)
}

/// Sets `name` (a path below `/proc/sys/net`) to `value`, writing only when it differs.
pub(crate) fn set(name: &str, value: &str, need: Need) -> Result<(), CniError> {
    let file = path(name);
    if std::fs::read_to_string(&file).is_ok_and(|now| now.trim() == value) {
        return Ok(());
    }
    match std::fs::write(&file, value) {
        Err(error) if need == Need::Required => {
            Err(CniError::io(format!("set net/{name} to {value}"), &error))
        }
        _ => Ok(()),
    }
}

/// Whether `name` has `value`.
pub(crate) fn is(name: &str, value: &str) -> bool {
    std::fs::read_to_string(path(name)).is_ok_and(|now| now.trim() == value)
}
