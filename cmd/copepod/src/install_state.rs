//! `copepod stop`, `copepod uninstall`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use copepod_bootstrap::instance::Instance;
use copepod_bootstrap::teardown;
use copepod_cni::{NodeStore, ipam};
use copepod_config::Layout;
use tokio_util::sync::CancellationToken;

use crate::node_config::NodeArgs;
use crate::runtime::{Threads, block_on};

/// How long the agent may take to end.
const GRACE: Duration = Duration::from_secs(15);
const UNIT: &str = "copepod.service";
const UNIT_FILE: &str = "/etc/systemd/system/copepod.service";
const OPENRC_FILE: &str = "/etc/init.d/copepod";

/// Flags of `stop`.
#[derive(Debug, clap::Args)]
pub(crate) struct StopArgs {
    /// Stop the pods and the container runtime as well
    #[arg(long)]
    pods: bool,
    #[command(flatten)]
    node: NodeArgs,
}

/// Flags of `uninstall`.
#[derive(Debug, clap::Args)]
pub(crate) struct UninstallArgs {
    /// Folder the programs were installed below
    #[arg(long, default_value = "/usr/local")]
    prefix: std::path::PathBuf,
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn stop(args: &StopArgs) -> anyhow::Result<ExitCode> {
    let layout = args.node.layout();
    block_on(Threads::One, async {
        stop_agent(&layout).await?;
        if args.pods {
            stop_pods(&args.node).await?;
            println!("pods and containerd are stopped");
        }
        Ok(ExitCode::SUCCESS)
    })
}

pub(crate) fn uninstall(args: &UninstallArgs) -> anyhow::Result<ExitCode> {
    let layout = args.node.layout();
    block_on(Threads::One, async {
        stop_agent(&layout).await?;
        stop_pods(&args.node).await?;
        remove_network().await?;
        teardown::remove_traces(&layout).await?;
        remove_program(&layout, &args.prefix)?;
        println!("copepod is gone");
        Ok(ExitCode::SUCCESS)
    })
}

/// By the service manager where there is one, since it would start the agent again.
async fn stop_agent(layout: &Layout) -> anyhow::Result<()> {
    if layout.root() == Path::new("/")
        && Path::new(UNIT_FILE).exists()
        && Path::new("/run/systemd/system").exists()
    {
        run("systemctl", &["stop", UNIT])?;
    } else if layout.root() == Path::new("/") && Path::new(OPENRC_FILE).exists() {
        run("rc-service", &["copepod", "stop"])?;
    } else if let Some(supervisor) = supervisor(layout) {
        teardown::end_process(supervisor, GRACE).await?;
    }
    match Instance::running(layout)? {
        Some(pid) => {
            teardown::end_process(pid, GRACE).await?;
            println!("the agent (process {pid}) is stopped");
        }
        None => println!("no agent runs"),
    }
    Ok(())
}

/// The process that keeps the agent running where no service manager does (`packaging/background`).
fn supervisor(layout: &Layout) -> Option<i32> {
    let pid: i32 = std::fs::read_to_string(layout.run().join("background.pid")).ok()?.trim().parse().ok()?;
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let name = b"copepod-background";
    command.windows(name.len()).any(|w| w == name).then_some(pid)
}

/// Pods go the regular way, by the runtime and the CNI plugin, which asks for the addresses service of the agent; the
/// agent is gone, so it runs here meanwhile.
async fn stop_pods(node: &NodeArgs) -> anyhow::Result<()> {
    let layout = node.layout();
    if !layout.containerd_socket().exists() {
        return Ok(());
    }
    if tokio::net::UnixStream::connect(layout.containerd_socket()).await.is_ok() {
        let config = ipam::Config { socket: layout.ipam_socket(), ranges: node.config()?.cluster_cidrs };
        let store = NodeStore::open(&layout.node_store())?;
        let done = CancellationToken::new();
        let service =
            copepod_supervisor::spawn("addresses", Box::pin(ipam::serve(store, config, done.clone())));
        let stopped = teardown::stop_pods(&layout).await;
        done.cancel();
        if let Some(served) = service.join().await {
            served.context("serve addresses for the CNI plugin")?;
        }
        println!("{} pods are stopped", stopped?);
    }
    Ok(teardown::stop_runtime(&layout).await?)
}

/// Everything of ours in the kernel: Service rules, addresses' rules, pod interfaces.
async fn remove_network() -> anyhow::Result<()> {
    copepod_dataplane::Driver::cleanup().await.context("remove the rules of Services")?;
    ipam::cleanup().await.context("remove the rules of the pod network")?;
    Ok(())
}

fn remove_program(layout: &Layout, prefix: &Path) -> anyhow::Result<()> {
    if layout.root() == Path::new("/") && Path::new(UNIT_FILE).exists() {
        run("systemctl", &["disable", UNIT])?;
        std::fs::remove_file(UNIT_FILE).with_context(|| format!("remove {UNIT_FILE}"))?;
        run("systemctl", &["daemon-reload"])?;
    }
    if layout.root() == Path::new("/") && Path::new(OPENRC_FILE).exists() {
        run("rc-update", &["del", "copepod"])?;
        std::fs::remove_file(OPENRC_FILE).with_context(|| format!("remove {OPENRC_FILE}"))?;
    }
    let bundle = prefix.join("lib/copepod");
    for name in ["copepod", "kubectl"] {
        let link = prefix.join("bin").join(name);
        // A link of the same name that leads elsewhere is somebody else's.
        if std::fs::read_link(&link).is_ok_and(|target| target.starts_with(&bundle)) {
            std::fs::remove_file(&link).with_context(|| format!("remove {}", link.display()))?;
        }
    }
    if bundle.exists() {
        std::fs::remove_dir_all(&bundle).with_context(|| format!("remove {}", bundle.display()))?;
    }
    Ok(())
}

fn run(program: &str, words: &[&str]) -> anyhow::Result<()> {
    let status =
        copepod_sys::command(program).args(words).status().with_context(|| format!("start {program}"))?;
    anyhow::ensure!(status.success(), "{program} {} ended with {status}", words.join(" "));
    Ok(())
}
