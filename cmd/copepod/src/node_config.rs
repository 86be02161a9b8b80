//! Flags that say which node is meant: its root, its configuration, its bundle.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::Context;
use copepod_bootstrap::Node;
use copepod_config::{Layout, NodeConfig, ProxyMode};

/// Flags of every command that concerns a node on this machine.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NodeArgs {
    /// Folder below which everything of the node lies
    #[arg(long, default_value = "/", env = "COPEPOD_ROOT")]
    pub(crate) root: PathBuf,
    /// Configuration file; /etc/copepod/config.yaml below the root when not given
    #[arg(long)]
    pub(crate) config: Option<PathBuf>,
    /// Folder of the bundle; the one this program lies in when not given
    #[arg(long, env = "COPEPOD_BUNDLE")]
    pub(crate) bundle: Option<PathBuf>,
    /// Name of the node
    #[arg(long)]
    pub(crate) node_name: Option<String>,
    /// Address of the node; one per family
    #[arg(long = "node-ip")]
    pub(crate) node_ips: Vec<IpAddr>,
    /// How Services reach the kernel: nftables or iptables
    #[arg(long, value_parser = proxy_mode)]
    pub(crate) proxy_mode: Option<ProxyMode>,
}

fn proxy_mode(text: &str) -> Result<ProxyMode, String> {
    match text {
        "nftables" => Ok(ProxyMode::Nftables),
        "iptables" => Ok(ProxyMode::Iptables),
        other => Err(format!("{other:?} is not one of nftables, iptables")),
    }
}

impl NodeArgs {
    /// Where everything lies.
    pub(crate) fn layout(&self) -> Layout {
        Layout::new(&self.root)
    }

    /// The bundle: `<bundle>/bin/copepod` is this program, unless a flag says otherwise.
    pub(crate) fn bundle(&self) -> anyhow::Result<PathBuf> {
        if let Some(bundle) = &self.bundle {
            return Ok(bundle.clone());
        }
        let program = std::env::current_exe().context("find this program's own path")?;
        let bundle = program.parent().and_then(std::path::Path::parent).map(PathBuf::from);
        bundle.with_context(|| format!("{} lies in no bundle; give one with --bundle", program.display()))
    }

    /// The configuration file with the flags over it.
    pub(crate) fn config(&self) -> anyhow::Result<NodeConfig> {
        let path = self.config.clone().unwrap_or_else(|| self.layout().config_file());
        anyhow::ensure!(self.config.is_none() || path.exists(), "{} does not exist", path.display());
        let mut config = NodeConfig::load(&path)?;
        if let Some(name) = &self.node_name {
            config.node_name.clone_from(name);
        }
        if !self.node_ips.is_empty() {
            config.node_ips.clone_from(&self.node_ips);
        }
        if let Some(mode) = self.proxy_mode {
            config.proxy_mode = mode;
        }
        config.check()?;
        Ok(config)
    }

    /// The node with every blank filled in.
    pub(crate) fn node(&self) -> anyhow::Result<Node> {
        Ok(Node::resolve(self.layout(), self.config()?, &self.bundle()?)?)
    }
}
