//! The one generic store of API objects and the strategies of each kind.

pub mod hooks;
pub mod kinds;
pub mod printers;

pub use hooks::{HookContext, Hooks, Plain};
