//! The registry over the store in memory: the same battery over many kinds, and what is special to some.

#![allow(missing_docs, reason = "tests")]

mod battery;
mod custom;
mod rig;
mod special;
mod watching;
