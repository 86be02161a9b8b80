//! The only crate with unsafe code, and the only door to processes and clocks.
//!
//! Other crates reach the operating system through the modules here, so that what a test must fake
//! (time) or a reader must audit (unsafe, child processes) has one place.

pub mod clock;
pub mod process;

pub use process::{async_command, command};
