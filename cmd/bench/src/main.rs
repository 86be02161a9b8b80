//! Measures a node of the bundle: memory and processor idle, start and restart, pods, the API, sizes.
//!
//! It is never a test: it fails only when it cannot measure. The figures go to standard output as JSON, and to standard
//! error as a table beside the aims of the design.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program reports to its terminal"
)]

mod api;
mod pods;
mod processes;
mod report;
mod start;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use copepod_client::{Client, ClientConfig};
use copepod_testkit::ClusterOptions;

use crate::report::Report;

#[derive(Debug, Parser)]
#[command(about = "Measure a node of the bundle")]
struct Args {
    /// The unpacked bundle.
    #[arg(long, default_value = "bundle/current")]
    bundle: PathBuf,
    /// Seconds of idleness to measure, after as many to settle.
    #[arg(long, default_value_t = 60)]
    idle: u64,
    /// Pods to start one after the other.
    #[arg(long, default_value_t = 30)]
    pods: usize,
    /// Seconds for each measurement of the API.
    #[arg(long, default_value_t = 5)]
    load: u64,
}

fn main() -> anyhow::Result<()> {
    copepod_testkit::dispatch();
    let args = Args::parse();
    let bundle = args.bundle.canonicalize().with_context(|| args.bundle.display().to_string())?;
    let mut report = Report::default();
    start::sizes(&bundle, &mut report)?;
    let mut cluster = start::cold(&ClusterOptions::new("bench", &bundle), &mut report)?;
    let idle = Duration::from_secs(args.idle);
    processes::idle(cluster.node.init_pid(), idle, &mut report)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let config = ClientConfig::from_kubeconfig(cluster.kubeconfig())?;
    runtime.block_on(async {
        pods::start(&Client::new(&config)?, args.pods, &mut report).await?;
        api::measure(&config, Duration::from_secs(args.load), &mut report).await
    })?;
    start::agent_restart(&mut cluster, &mut report)?;
    cluster.stop()?;
    eprint!("{}", report.table());
    println!("{}", report.json()?);
    Ok(())
}
