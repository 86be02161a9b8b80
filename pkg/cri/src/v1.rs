//! Generated messages and clients of package `runtime.v1`.

#![allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    reason = "generated code"
)]

tonic::include_proto!("runtime.v1");
