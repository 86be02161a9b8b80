//! The oracle: upstream's own components, built from the same modules as the suite, run in a node of their own.

mod kubectl;
mod mixed;
mod node;
mod replay;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::upstream;

/// The subcommands of `cargo xtask oracle`.
#[derive(Debug, Subcommand)]
pub(crate) enum OracleTask {
    /// Build upstream's components, and what they need to run, as far as that is missing.
    Build,
    /// Run a node of upstream's components until Ctrl-C; each can be replaced by ours or left out.
    Up(Up),
    /// Let upstream's components work on our API server and ours on upstream's, and compare their logs with the usual.
    Mixed(mixed::Mixed),
    /// Replay recorded requests on both API servers and show where the answers differ.
    Diff(replay::Diff),
    /// Run kubectl commands on both API servers and controller-managers and show where the answers differ.
    Kubectl(kubectl::Kubectl),
    /// Write down what upstream's API server answers to requests, beside them.
    Record(replay::Scripts),
}

/// A node, and where it can be reached.
#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    cast: node::Cast,
    /// The loopback address of this machine at which the API answers.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where to write the administrator's kubeconfig.
    #[arg(long, default_value = "oracle.kubeconfig")]
    kubeconfig: PathBuf,
    /// Run this on the node (its words follow) instead of waiting for Ctrl-C, with KUBECONFIG set; its exit code counts
    #[arg(last = true)]
    command: Vec<std::ffi::OsString>,
}

/// Runs one subcommand.
pub(crate) fn run(task: &OracleTask) -> anyhow::Result<ExitCode> {
    match task {
        OracleTask::Diff(diff) => return replay::diff(diff).map(|()| ExitCode::SUCCESS),
        OracleTask::Kubectl(options) => return kubectl::run(options),
        OracleTask::Record(scripts) => return replay::record(scripts).map(|()| ExitCode::SUCCESS),
        OracleTask::Build | OracleTask::Up(_) | OracleTask::Mixed(_) => {}
    }
    for group in [upstream::Group::Bundled, upstream::Group::Oracle, upstream::Group::Test] {
        upstream::ensure(group)?;
    }
    match task {
        OracleTask::Up(up) => run_node(up),
        OracleTask::Mixed(options) => mixed::run(options),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn run_node(up: &Up) -> anyhow::Result<ExitCode> {
    let mut on = node::OracleNode::start("oracle", &up.cast, &node::Images::ensure()?)?;
    let code = match up.command.split_first() {
        Some((program, words)) => on.run(program, words)?,
        None => announce(&mut on, up).map(|()| ExitCode::SUCCESS)?,
    };
    on.stop()?;
    Ok(code)
}

fn announce(on: &mut node::OracleNode, up: &Up) -> anyhow::Result<()> {
    let address = on.node.forward_from(up.listen, 6443)?;
    on.write_kubeconfig(&up.kubeconfig, &format!("https://{address}"))?;
    println!("the API answers at https://{address}");
    println!("  export KUBECONFIG={}", std::path::absolute(&up.kubeconfig)?.display());
    println!("  {} get nodes", upstream::binary("kubectl")?.display());
    println!("  nsenter -t {} -m -n -p -u -i -C  # a shell on the node", on.node.init_pid());
    println!("logs: {}/<component>.log; Ctrl-C ends it", on.node.host_path("/var/log").display());
    wait_for_interrupt()?;
    Ok(std::fs::remove_file(&up.kubeconfig)?)
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
