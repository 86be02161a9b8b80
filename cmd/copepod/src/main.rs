//! The copepod binary.
fn main() {}
