//! `copepod kubelet`, `kubelet`: the kubelet alone, with upstream's flags and configuration file.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use copepod_config::load_component;
use copepod_kubelet::Config;
use copepod_kubelet::config::KubeletConfiguration;

use crate::flags::host_name;
use crate::runtime::{Threads, component};

/// Flags of the kubelet, by upstream's names: what is not in its configuration file, and the endpoint. A flag wins over
/// the file.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// A KubeletConfiguration; upstream's defaults when not given
    #[arg(long)]
    config: Option<PathBuf>,
    /// Kubeconfig of this node's identity; only static pods are run when not given
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Name of the node; the host's name in lower case when not given
    #[arg(long)]
    hostname_override: Option<String>,
    /// Address of the node, one per family; that of the default route when not given
    #[arg(long, value_delimiter = ',')]
    node_ip: Vec<IpAddr>,
    /// Labels to register with
    #[arg(long, value_delimiter = ',', value_parser = label)]
    node_labels: Vec<(String, String)>,
    /// Folder of the kubelet's state
    #[arg(long, default_value = "/var/lib/kubelet")]
    root_dir: PathBuf,
    /// Endpoint of the container runtime, such as unix:///run/containerd/containerd.sock
    #[arg(long)]
    container_runtime_endpoint: Option<String>,
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not key=value"))?;
    Ok((key.to_owned(), value.to_owned()))
}

impl Args {
    /// The configuration of file and flags.
    fn config(&self, file: &KubeletConfiguration) -> anyhow::Result<Config> {
        let mut config = file.config().map_err(|problems| anyhow::anyhow!(problems.join("; ")))?;
        config.node_name = self.hostname_override.clone().unwrap_or_else(|| host_name().to_lowercase());
        config.node_ips.clone_from(&self.node_ip);
        config.node_labels = self.node_labels.iter().cloned().collect::<BTreeMap<_, _>>();
        config.kubeconfig.clone_from(&self.kubeconfig);
        config.root_dir.clone_from(&self.root_dir);
        if let Some(endpoint) = &self.container_runtime_endpoint {
            config.runtime_endpoint.clone_from(endpoint);
        }
        let problems = config.problems();
        ensure!(problems.is_empty(), problems.join("; "));
        Ok(config)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let file = args.config.as_deref().map(load_component::<KubeletConfiguration>).transpose()?;
    let file = file.unwrap_or_default();
    // A kernel without swap has no such file.
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let problems = file.problems(&swaps, Path::new("/sys/fs/cgroup/cgroup.controllers").exists());
    ensure!(problems.is_empty(), "{}", problems.join("; "));
    let config = args.config(&file).context("the kubelet's configuration cannot work")?;
    component("kubelet", Threads::Several, |shutdown| async move {
        Ok(Box::pin(copepod_kubelet::run(config, shutdown)).await?)
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
    fn flags_win_over_the_file() {
        let line = [
            "kubelet",
            "--hostname-override=n1",
            "--node-ip=10.0.0.1,fd00::1",
            "--node-labels=a=b,c=",
            "--container-runtime-endpoint=unix:///x",
        ];
        let args = Line::try_parse_from(line).unwrap().args;
        let file = KubeletConfiguration {
            container_runtime_endpoint: Some("unix:///y".to_owned()),
            ..KubeletConfiguration::default()
        };
        let config = args.config(&file).unwrap();
        assert_eq!((config.node_name.as_str(), config.node_ips.len()), ("n1", 2));
        assert_eq!(config.node_labels.get("c").map(String::as_str), Some(""));
        assert_eq!(config.runtime_endpoint, "unix:///x");
        assert!(Line::try_parse_from(["kubelet", "--no-such-flag"]).is_err());
        assert!(Line::try_parse_from(["kubelet", "--node-labels=a"]).is_err());
    }
}
