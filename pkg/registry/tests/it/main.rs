//! The registry over the store in memory: the same battery over many kinds, and what is special to some.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod battery;
mod conversion;
mod custom;
mod rig;
mod special;
mod texts;
mod watching;
