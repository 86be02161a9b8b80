//! The only crate with unsafe code, and the only door to processes, clocks, namespaces, mounts and cgroups.
//!
//! Other crates reach the operating system through the modules here, so that what a test must fake
//! (time) or a reader must audit (unsafe, child processes) has one place.

pub mod cgroup;
pub mod clock;
mod error;
pub mod mount;
pub mod namespace;
pub mod process;

pub use error::SysError;
pub use process::{async_command, command};
