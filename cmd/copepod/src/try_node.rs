//! `copepod try`: a throw-away node in namespaces of its own.

mod demo;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use copepod_testkit::{Cluster, ClusterOptions, Side};
use tokio::time::Instant;

use crate::runtime::{Threads, block_on, stop_signal};

/// Flags of `try`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Deploy a small web service, fetch it by address and by name, print the pods, and end
    #[arg(long)]
    demo: bool,
    /// Name of the node
    #[arg(long, default_value = "try")]
    name: String,
    /// How Services reach the kernel: nftables or iptables
    #[arg(long, default_value = "nftables", value_parser = ["nftables", "iptables"])]
    proxy_mode: String,
    /// Folder of the bundle; the one this program lies in when not given
    #[arg(long, env = "COPEPOD_BUNDLE")]
    bundle: Option<PathBuf>,
    /// Run a command on the node when it is ready (its words follow), and end with its exit code
    #[arg(last = true)]
    command: Vec<String>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "namespaces and mounts need root: run `sudo copepod try`"
    );
    let mut options = ClusterOptions::new(&args.name, bundle(args.bundle.as_deref())?);
    options.flags = vec![format!("--proxy-mode={}", args.proxy_mode)];
    options.log = std::env::var("COPEPOD_LOG").unwrap_or(options.log);
    let begun = Instant::now();
    let cluster =
        Cluster::start(&options, &mut |step| println!("{:6.1} s  {step}", begun.elapsed().as_secs_f64()))?;
    let code = if args.demo {
        demo::run(&cluster)
    } else if let Some((program, words)) = args.command.split_first() {
        let status = cluster.command(Side::Node, program).args(words).status();
        status.with_context(|| format!("run {program}")).map(exit_code)
    } else {
        announce(&cluster);
        block_on(Threads::One, async {
            stop_signal().await;
            Ok(ExitCode::SUCCESS)
        })
    };
    cluster.stop()?;
    code
}

fn exit_code(status: std::process::ExitStatus) -> ExitCode {
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

fn bundle(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("find this program's own path")?;
    let bundle = given.map(PathBuf::from).or_else(|| own.parent()?.parent().map(PathBuf::from));
    let bundle = bundle.unwrap_or_default();
    bundle.canonicalize().with_context(|| {
        format!("{} is no bundle; make one with `make bundle`, or give --bundle", bundle.display())
    })
}

fn announce(cluster: &Cluster) {
    println!("\nThe node is ready. In another terminal:");
    println!("    export KUBECONFIG={}", cluster.kubeconfig().display());
    println!("    {} get pods -A", cluster.bundle().join("bin/kubectl").display());
    println!("Ctrl-C ends it and removes every trace.");
}
