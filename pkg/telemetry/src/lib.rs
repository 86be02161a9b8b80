//! Logging, and text in Prometheus' exposition format.
//!
//! A process calls [`init`] once. [`Exposition`] writes metric families from values that already exist elsewhere, at
//! the moment somebody asks: nothing is counted twice or held for the sake of a metric.

mod exposition;
mod log;
mod plain;

pub use exposition::Exposition;
pub use log::{LogError, init};
pub use plain::{PlainResponse, serve_plain};
