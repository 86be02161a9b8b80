//! Checks that many kinds share, one subject per file.

pub(crate) mod amounts;
pub(crate) mod ip;
pub(crate) mod labels;
pub(crate) mod text;
pub(crate) mod topology;
pub(crate) mod warn;
pub(crate) mod workload;
