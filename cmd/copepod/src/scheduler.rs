//! `copepod scheduler`, `kube-scheduler`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::flags::{Serving, host_name};
use crate::runtime::{Threads, component};

/// Flags of the scheduler, by upstream's names.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Kubeconfig of the scheduler's identity
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Whether to hold a lease while working
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// The port to serve health and metrics on
    #[arg(long, default_value_t = 10259)]
    secure_port: u16,
    #[command(flatten)]
    serving: Serving,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut config = copepod_scheduler::Config::new(args.kubeconfig, host_name());
    config.serving = args.serving.config(args.secure_port);
    config.leader_elect = args.leader_elect;
    component("kube-scheduler", Threads::One, |shutdown| async move {
        Ok(copepod_scheduler::run(config, shutdown).await?)
    })
}
