//! Component lifecycle: named tasks, and later readiness guards and drain.

mod task;

pub use task::{Task, spawn};
