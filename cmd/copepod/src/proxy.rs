//! `copepod proxy`, `kube-proxy`: the proxy alone, with upstream's flags and configuration file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;
use copepod_config::load_component;
use copepod_proxy::{Config, KubeProxyConfiguration};

use crate::flags::host_name;
use crate::runtime::{Threads, component};

/// Flags of the proxy, by upstream's names. With a configuration file, as upstream's, only the name of the node still
/// counts.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// A KubeProxyConfiguration
    #[arg(long)]
    config: Option<PathBuf>,
    /// Kubeconfig of the proxy's identity
    #[arg(long, required_unless_present = "config", conflicts_with = "config")]
    kubeconfig: Option<PathBuf>,
    /// Name of the node; the host's name in lower case when not given
    #[arg(long)]
    hostname_override: Option<String>,
    /// How Services reach the kernel: nftables or iptables
    #[arg(long, conflicts_with = "config")]
    proxy_mode: Option<String>,
    /// The pods' addresses; packets from elsewhere to a cluster address are masqueraded
    #[arg(long, conflicts_with = "config")]
    cluster_cidr: Option<String>,
}

impl Args {
    /// The file, or what the flags say in its words.
    fn file(&self) -> anyhow::Result<KubeProxyConfiguration> {
        let mut file = self.config.as_deref().map(load_component::<KubeProxyConfiguration>).transpose()?;
        let file = file.get_or_insert_with(|| KubeProxyConfiguration {
            mode: self.proxy_mode.clone(),
            cluster_cidr: self.cluster_cidr.clone(),
            ..KubeProxyConfiguration::default()
        });
        if self.kubeconfig.is_some() {
            file.client_connection.kubeconfig.clone_from(&self.kubeconfig);
        }
        if self.hostname_override.is_some() {
            file.hostname_override.clone_from(&self.hostname_override);
        }
        Ok(file.clone())
    }

    fn config(&self) -> anyhow::Result<Config> {
        let mut config = self.file()?.config().map_err(|problems| anyhow::anyhow!(problems.join("; ")))?;
        if config.node_name.is_empty() {
            config.node_name = host_name().to_lowercase();
        }
        ensure!(config.kubeconfig != Path::new(""), "no kubeconfig: clientConnection.kubeconfig names it");
        Ok(config)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.config()?;
    component("kube-proxy", Threads::One, |shutdown| async move {
        Ok(Box::pin(copepod_proxy::run(config, shutdown)).await?)
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn flags_alone_are_enough() {
        let line = ["kube-proxy", "--kubeconfig=/k", "--hostname-override=n1", "--cluster-cidr=10.1.0.0/16"];
        let config = Line::try_parse_from(line).unwrap().args.config().unwrap();
        assert_eq!((config.kubeconfig.as_path(), config.node_name.as_str()), (Path::new("/k"), "n1"));
        assert_eq!(config.cluster_cidrs.len(), 1);
        assert!(Line::try_parse_from(["kube-proxy"]).is_err());
        assert!(Line::try_parse_from(["kube-proxy", "--config=/c", "--proxy-mode=nftables"]).is_err());
    }
}
