//! Compiles the checked-in CRI definition without an external protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let proto = "proto/runtime_v1.proto";
    println!("cargo:rerun-if-changed={proto}");
    let files = protox::compile([proto], ["proto"])?;
    tonic_prost_build::configure().build_server(false).build_transport(false).compile_fds(files)?;
    Ok(())
}
