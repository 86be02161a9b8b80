//! Child processes. Every program we start is started through here.

use std::ffi::OsStr;

/// A command builder for `program`; blocking form.
#[expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]
pub fn command(program: impl AsRef<OsStr>) -> std::process::Command {
    std::process::Command::new(program)
}

/// A command builder for `program` whose child is waited for without blocking a thread.
#[expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]
pub fn async_command(program: impl AsRef<OsStr>) -> tokio::process::Command {
    tokio::process::Command::new(program)
}
