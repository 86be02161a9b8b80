//! `copepod controller-manager`, `kube-controller-manager`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::flags::{Serving, host_name};
use crate::runtime::{Threads, component};

/// Flags of the controllers, by upstream's names.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Kubeconfig of the controllers' identity
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Whether to hold a lease while working
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// Whether each controller acts as a service account of its own
    #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    use_service_account_credentials: bool,
    /// Controllers to run: names, `*` for all that are on by default, `-name` to leave one out
    #[arg(long, value_delimiter = ',', default_value = "*")]
    controllers: Vec<String>,
    /// Authority that is published in every namespace
    #[arg(long)]
    root_ca_file: Option<PathBuf>,
    /// Authority that signs certificate requests
    #[arg(long, requires = "cluster_signing_key_file")]
    cluster_signing_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, requires = "cluster_signing_cert_file")]
    cluster_signing_key_file: Option<PathBuf>,
    /// Key that signs token secrets
    #[arg(long)]
    service_account_private_key_file: Option<PathBuf>,
    /// How long a node may be silent before it counts as not ready, in seconds
    #[arg(long, value_parser = copepod_api::duration::parse_positive)]
    node_monitor_grace_period: Option<std::time::Duration>,
    /// How many ended pods may stay
    #[arg(long)]
    terminated_pod_gc_threshold: Option<usize>,
    /// The port to serve health and metrics on
    #[arg(long, default_value_t = 10257)]
    secure_port: u16,
    #[command(flatten)]
    serving: Serving,
    #[command(flatten)]
    accepted: Accepted,
}

/// Flags of manifests that say what this node does anyway: addresses come from one range that the CNI plugin hands
/// out, and the name is for clouds.
#[derive(Debug, clap::Args)]
struct Accepted {
    /// Accepted for manifests written for upstream
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    allocate_node_cidrs: Option<bool>,
    /// Accepted for manifests written for upstream
    #[arg(long)]
    cluster_cidr: Option<String>,
    /// Accepted for manifests written for upstream
    #[arg(long)]
    cluster_name: Option<String>,
    /// Accepted for manifests written for upstream
    #[arg(long)]
    service_cluster_ip_range: Option<String>,
    /// Accepted for manifests written for upstream
    #[arg(long)]
    requestheader_client_ca_file: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut config = copepod_controllers::Config::new(args.kubeconfig, host_name());
    config.serving = args.serving.config(args.secure_port);
    config.leader_elect = args.leader_elect;
    config.use_service_account_credentials = args.use_service_account_credentials;
    config.controllers = args.controllers;
    config.root_ca_file = args.root_ca_file;
    config.cluster_signing = args.cluster_signing_cert_file.zip(args.cluster_signing_key_file);
    config.service_account_key = args.service_account_private_key_file;
    if let Some(period) = args.node_monitor_grace_period {
        config.node_monitor_grace_period = period;
    }
    if let Some(threshold) = args.terminated_pod_gc_threshold {
        config.terminated_pod_gc_threshold = threshold;
    }
    let accepted = args.accepted;
    component("kube-controller-manager", Threads::One, |shutdown| async move {
        tracing::debug!(?accepted, "flags without effect on a single node");
        Ok(copepod_controllers::run(config, shutdown).await?)
    })
}
