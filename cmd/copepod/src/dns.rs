//! `copepod dns`: the cluster's DNS server, as it runs in its pod.

use std::process::ExitCode;

use crate::runtime::{Threads, component};

/// Flags of the DNS server.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The suffix of cluster names
    #[arg(long, default_value = "cluster.local")]
    cluster_domain: String,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config =
        copepod_dns::Config { cluster_domain: args.cluster_domain, ..copepod_dns::Config::default() };
    component("dns", Threads::One, |shutdown| async move { Ok(copepod_dns::run(config, shutdown).await?) })
}
