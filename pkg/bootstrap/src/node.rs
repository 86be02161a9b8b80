//! What a start knows of its node: the configuration with every blank filled in.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use copepod_config::{Layout, NodeConfig};

use crate::error::BootstrapError;

/// A node about to be started: paths, settings and the bundle it runs from.
#[derive(Debug, Clone)]
pub struct Node {
    /// Where everything lies.
    pub layout: Layout,
    /// The settings; `node_name` and `node_ips` are never empty here.
    pub config: NodeConfig,
    /// The folder of the bundle: `bin/` with our and upstream's programs, `images/` with archives.
    pub bundle: PathBuf,
}

impl Node {
    /// Fills in what the owner left blank.
    ///
    /// # Errors
    /// [`BootstrapError::NoAddress`] when the machine has no address but loopback and none is configured.
    pub fn resolve(layout: Layout, mut config: NodeConfig, bundle: &Path) -> Result<Self, BootstrapError> {
        if config.node_name.is_empty() {
            config.node_name = host_name();
        }
        if config.node_ips.is_empty() {
            config.node_ips.extend(source_address());
        }
        if config.node_ips.is_empty() {
            return Err(BootstrapError::NoAddress { config: layout.config_file() });
        }
        Ok(Self { layout, config, bundle: bundle.to_owned() })
    }

    /// The primary address.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.config.node_ips.first().copied().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// A program of the bundle.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.bundle.join("bin").join(name)
    }

    /// Where components on this node reach the API server.
    #[must_use]
    pub fn api_server(&self) -> String {
        format!("https://127.0.0.1:{}", self.config.api_port)
    }
}

/// The host's name in lower case, as the kubelet takes it; `copepod` when the host has none.
fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().trim().to_lowercase();
    let usable =
        !name.is_empty() && name != "(none)" && copepod_api::names::dns1123_subdomain(&name).is_empty();
    if usable { name } else { "copepod".to_owned() }
}

/// The address that the default route would send from. Connecting a datagram socket sends nothing.
fn source_address() -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_filled_and_choices_are_kept() {
        let config = NodeConfig {
            node_name: "edge-1".to_owned(),
            node_ips: vec!["192.168.9.2".parse().unwrap()],
            ..NodeConfig::default()
        };
        let node = Node::resolve(Layout::new("/n"), config, Path::new("/b")).unwrap();
        assert_eq!(node.ip(), "192.168.9.2".parse::<IpAddr>().unwrap());
        assert_eq!(node.program("runc"), Path::new("/b/bin/runc"));
        assert_eq!(node.api_server(), "https://127.0.0.1:6443");
        assert!(!host_name().is_empty());
    }
}
