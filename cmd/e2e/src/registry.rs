//! A small image registry beside the node: one image of the bundle, behind a user name and a password.

use std::net::SocketAddr;

use copepod_image::{Archive, Registry, Serving};
use copepod_testkit::{Cluster, Side};
use libtest_mimic::Failed;

use crate::BUSYBOX;

/// Serves the bundle's busybox at `address` in the neighbour's namespace as `test/busybox:1`, to user `puller` with
/// password `s3cret`, until the result is dropped.
pub fn serve(cluster: &Cluster, address: SocketAddr) -> Result<Serving, Failed> {
    let archive = Archive::open(cluster.bundle().join("images/busybox.tar"))?;
    let registry =
        Registry::default().with(archive).with_name(&format!("{address}/test/busybox:1"), BUSYBOX)?;
    Ok(registry.with_login("puller", "s3cret").serve(cluster.node.listen(Side::Lan, address)?)?)
}
