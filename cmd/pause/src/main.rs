//! The sandbox process.
fn main() {}
