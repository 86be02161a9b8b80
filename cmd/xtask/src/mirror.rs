//! Images for a node without a network: a registry in its neighbour's place that answers for every registry's name.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context;
use copepod_image::{Registry, Serving, mirror_hosts};
use copepod_testkit::{LAN_ADDRESS, Node, Side};

/// Where the neighbour serves.
const PORT: u16 = 5000;

/// Serves `images` until the result is dropped, and tells the node's containerd so by its file `hosts`.
pub(crate) fn serve(images: Registry, node: &Node, hosts: &Path) -> anyhow::Result<Serving> {
    let address = SocketAddr::from((LAN_ADDRESS, PORT));
    let serving = images.serve(node.listen(Side::Lan, address)?)?;
    let hosts = node.host_path(hosts);
    fs::create_dir_all(hosts.parent().unwrap_or(&hosts)).with_context(|| hosts.display().to_string())?;
    fs::write(&hosts, mirror_hosts(address)).with_context(|| hosts.display().to_string())?;
    Ok(serving)
}
