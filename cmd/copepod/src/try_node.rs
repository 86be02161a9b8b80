//! `copepod try`: a throw-away node in namespaces of its own.

mod demo;
mod progress;

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, bail};
use copepod_testkit::{Node, Service};
use serde_json::Value;

use self::progress::Progress;
use crate::runtime::{Threads, block_on, stop_signal};

/// How long a node may take: an image import on a slow disk takes most of it.
const START: Duration = Duration::from_secs(180);

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
    #[arg(long, default_value = "nftables")]
    proxy_mode: String,
    /// Folder of the bundle; the one this program lies in when not given
    #[arg(long, env = "COPEPOD_BUNDLE")]
    bundle: Option<PathBuf>,
    /// Run a command on the node when it is ready (its words follow), and end with its exit code
    #[arg(last = true)]
    command: Vec<String>,
}

/// A running throw-away node and what a caller needs to use it.
pub(crate) struct TryNode {
    pub(crate) node: Node,
    pub(crate) bundle: PathBuf,
    pub(crate) kubeconfig: PathBuf,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "namespaces and mounts need root: run `sudo copepod try`"
    );
    let progress = Progress::start();
    let bundle = bundle(args.bundle.as_deref())?;
    let mut node = Node::builder().name(&args.name).start()?;
    progress.step("namespaces", &format!("node {} at {}", node.name(), node.address()));
    start_agent(&mut node, &bundle, &args)?;
    let kubeconfig = wait_until_ready(&mut node, &bundle, &progress)?;
    let trial = TryNode { node, bundle, kubeconfig };
    let code = if args.demo {
        demo::run(&trial)
    } else if args.command.is_empty() {
        announce(&trial);
        block_on(Threads::One, async {
            stop_signal().await;
            Ok(ExitCode::SUCCESS)
        })
    } else {
        let status = trial.command(&args.command)?.status().context("run the command")?;
        Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)))
    };
    trial.end()?;
    code
}

fn bundle(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("find this program's own path")?;
    let bundle = given.map(PathBuf::from).or_else(|| own.parent()?.parent().map(PathBuf::from));
    let bundle = bundle.unwrap_or_default();
    if !bundle.join("bin/containerd").exists() {
        bail!("{} is not a bundle (no bin/containerd in it); make one with `make bundle`, or give --bundle", bundle.display());
    }
    bundle.canonicalize().with_context(|| format!("find {}", bundle.display()))
}

fn start_agent(node: &mut Node, bundle: &Path, args: &Args) -> anyhow::Result<()> {
    let service = Service::new("copepod", bundle.join("bin/copepod"))
        .args([
            "server".to_owned(),
            format!("--bundle={}", bundle.display()),
            format!("--node-name={}", args.name),
            format!("--node-ip={}", node.address()),
            format!("--proxy-mode={}", args.proxy_mode),
        ])
        .env("COPEPOD_LOG", std::env::var("COPEPOD_LOG").unwrap_or_else(|_| "info".to_owned()))
        .restart(true);
    Ok(node.start_service(service)?)
}

/// Follows the start step by step; returns a kubeconfig that works from outside the node.
fn wait_until_ready(node: &mut Node, bundle: &Path, progress: &Progress) -> anyhow::Result<PathBuf> {
    let socket = node.host_path(node.layout().containerd_socket());
    progress.wait(START, "containerd", || socket.exists().then(String::new)).map_err(|e| with_log(node, e))?;
    let admin = node.host_path(node.layout().kubeconfig("admin"));
    progress.wait(START, "certificates", || admin.exists().then(String::new)).map_err(|e| with_log(node, e))?;
    let address = node.forward(6443)?;
    let kubeconfig = write_kubeconfig(&admin, &format!("https://{address}"), node.name())?;
    let ask = |words: &[&str]| output(&mut kubectl(bundle, &kubeconfig, words));
    let api = || ask(&["get", "--raw=/readyz"]).map(|_| String::new());
    progress.wait(START, "API server", api).map_err(|e| with_log(node, e))?;
    let ready = || {
        let status = ask(&["get", "nodes", "-o=jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}"])?;
        (status == "True").then(String::new)
    };
    progress.wait(START, "node Ready", ready).map_err(|e| with_log(node, e))?;
    let dns = || {
        let ready = ask(&["get", "-n=kube-system", "deployment/coredns", "-o=jsonpath={.status.readyReplicas}"])?;
        (ready == "1").then(String::new)
    };
    progress.wait(START, "cluster DNS", dns).map_err(|e| with_log(node, e))?;
    Ok(kubeconfig)
}

/// The reason and the last lines of the agent's log, since the node is about to go.
fn with_log(node: &Node, error: anyhow::Error) -> anyhow::Error {
    let log = std::fs::read_to_string(node.host_path("/var/log/copepod.log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let tail = lines.iter().skip(lines.len().saturating_sub(20)).copied().collect::<Vec<_>>().join("\n");
    error.context(format!("the node did not come up; its log ends with:\n{tail}"))
}

fn write_kubeconfig(admin: &Path, server: &str, name: &str) -> anyhow::Result<PathBuf> {
    let text = std::fs::read_to_string(admin).with_context(|| format!("read {}", admin.display()))?;
    let mut document: Value = serde_saphyr::from_str(&text).context("parse the kubeconfig")?;
    document["clusters"][0]["cluster"]["server"] = server.into();
    let text = serde_saphyr::to_string(&document).context("write the kubeconfig")?;
    let path = std::env::temp_dir().join(format!("copepod-{name}-{}.kubeconfig", std::process::id()));
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("create {}", path.display()))?;
    std::io::Write::write_all(&mut file, text.as_bytes()).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

fn kubectl(bundle: &Path, kubeconfig: &Path, words: &[&str]) -> Command {
    let mut command = copepod_sys::command(bundle.join("bin/kubectl"));
    command.env("KUBECONFIG", kubeconfig).args(words);
    command
}

/// The trimmed output of a command that succeeds.
fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(std::process::Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn announce(trial: &TryNode) {
    let kubeconfig = trial.kubeconfig.display();
    println!("\nThe node is ready. In another terminal:");
    println!("    export KUBECONFIG={kubeconfig}");
    println!("    {} get pods -A", trial.bundle.join("bin/kubectl").display());
    println!("Ctrl-C ends it and removes every trace.");
}

impl TryNode {
    /// kubectl against the node.
    pub(crate) fn kubectl(&self, words: &[&str]) -> Command {
        kubectl(&self.bundle, &self.kubeconfig, words)
    }

    /// A command on the node, with the bundle's programs and the administrator's kubeconfig at hand.
    fn command(&self, words: &[String]) -> anyhow::Result<Command> {
        let (program, rest) = words.split_first().context("no command given")?;
        let mut command = self.node.command(copepod_testkit::Side::Node, program);
        let path = format!("{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", self.bundle.join("bin").display());
        command.args(rest).env("PATH", path).env("KUBECONFIG", self.node.layout().kubeconfig("admin"));
        Ok(command)
    }

    fn end(self) -> anyhow::Result<()> {
        let removed = std::fs::remove_file(&self.kubeconfig);
        self.node.stop()?;
        removed.with_context(|| format!("remove {}", self.kubeconfig.display()))
    }
}
