//! The CNI plugin binary.
fn main() {}
