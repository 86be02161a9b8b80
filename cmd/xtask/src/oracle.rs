//! The oracle: upstream's own components, built from the same modules as the suite, run in a node of their own.

mod replay;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use copepod_testkit::{Implementation, Node, Oracle, Part, Parts};

use crate::{upstream, workspace};

/// The subcommands of `cargo xtask oracle`.
#[derive(Debug, Subcommand)]
pub(crate) enum OracleTask {
    /// Build upstream's components, and what they need to run, as far as that is missing.
    Build,
    /// Run a node of upstream's components until Ctrl-C; each can be replaced by ours or left out.
    Up(Up),
    /// Replay recorded requests on both API servers and show where the answers differ.
    Diff(replay::Diff),
    /// Write down what upstream's API server answers to requests, beside them.
    Record(replay::Scripts),
}

/// Who plays the parts.
#[derive(Debug, Args)]
pub(crate) struct Up {
    #[arg(long, default_value = "upstream")]
    apiserver: Who,
    #[arg(long, default_value = "upstream")]
    controller_manager: Who,
    #[arg(long, default_value = "upstream")]
    scheduler: Who,
    /// With containerd and a bridge network.
    #[arg(long, default_value = "none")]
    kubelet: Who,
    #[arg(long, default_value = "none")]
    proxy: Who,
    /// The program that plays the parts of `ours`.
    #[arg(long, default_value = "bundle/current/bin/copepod")]
    copepod: PathBuf,
    /// The loopback address of this machine at which the API answers.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where to write the administrator's kubeconfig.
    #[arg(long, default_value = "oracle.kubeconfig")]
    kubeconfig: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Who {
    Upstream,
    Ours,
    None,
}

/// Runs one subcommand.
pub(crate) fn run(task: &OracleTask) -> anyhow::Result<()> {
    match task {
        OracleTask::Diff(diff) => return replay::diff(diff),
        OracleTask::Record(scripts) => return replay::record(scripts),
        OracleTask::Build | OracleTask::Up(_) => {}
    }
    for group in [upstream::Group::Bundled, upstream::Group::Oracle, upstream::Group::Test] {
        upstream::ensure(group)?;
    }
    match task {
        OracleTask::Up(up) => run_node(up),
        _ => Ok(()),
    }
}

fn run_node(up: &Up) -> anyhow::Result<()> {
    let copepod = workspace::root().join(&up.copepod);
    let mut node = Node::builder().name("oracle").start()?;
    let oracle = Oracle::start(&mut node, &parts(up, &copepod))?;
    let address = node.forward_from(up.listen, 6443)?;
    std::fs::write(&up.kubeconfig, oracle.kubeconfig(&format!("https://{address}")))
        .with_context(|| up.kubeconfig.display().to_string())?;
    println!("the API answers at https://{address}");
    println!("  export KUBECONFIG={}", std::path::absolute(&up.kubeconfig)?.display());
    println!("  {} get nodes", upstream::binary("kubectl")?.display());
    println!("logs: {}/<component>.log; Ctrl-C ends it", node.host_path("/var/log").display());
    wait_for_interrupt()?;
    std::fs::remove_file(&up.kubeconfig)?;
    node.stop()?;
    Ok(())
}

fn parts(up: &Up, copepod: &Path) -> Parts {
    let wishes = [up.apiserver, up.controller_manager, up.scheduler, up.kubelet, up.proxy];
    Part::ALL.into_iter().zip(wishes).fold(Parts::default(), |parts, (part, who)| {
        let implementation = match who {
            Who::Upstream => Implementation::Upstream,
            Who::Ours => Implementation::Ours(copepod.to_path_buf()),
            Who::None => Implementation::None,
        };
        parts.with(part, implementation)
    })
}

/// Waits for Ctrl-C or SIGTERM.
pub(crate) fn wait_for_interrupt() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted,
            _ = terminate.recv() => Ok(()),
        }
    })?;
    Ok(())
}
