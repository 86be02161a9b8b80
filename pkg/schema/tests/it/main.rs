//! Tests against upstream's published test data, read from the Go module cache where there is one.
#![allow(clippy::print_stdout, reason = "a test that cannot run must say so")]

mod apply;
mod openapi;
mod roundtrip;
mod strategic;

use std::path::PathBuf;

/// A folder of the module cache; says so and yields nothing when it is not there.
fn module(path: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("GOMODCACHE").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/pkg/mod"));
    let dir = cache.or(home)?.join(path);
    if dir.is_dir() {
        return Some(dir);
    }
    println!("not tested: {} is not in the module cache", dir.display());
    None
}
