//! The cluster under test: a fresh node of our own, or one that is there already.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use copepod_image::{Archive, Registry, Serving};
use copepod_sys::command;
use copepod_testkit::{Cluster, ClusterOptions, Side};
use tokio::time::Instant;

use super::images;
use crate::{mirror, upstream, workspace};

/// containerd asks this mirror for images of every registry that it knows nothing else about.
const HOSTS: &str = "/etc/copepod/registry/_default/hosts.toml";

/// What a node of our own is made of.
#[derive(Debug, clap::Args)]
pub(crate) struct Node {
    /// The unpacked bundle; `bundle/current` of this checkout when not given
    #[arg(long, env = "COPEPOD_BUNDLE")]
    bundle: Option<PathBuf>,
    /// The agent's log filter
    #[arg(long, default_value = "info")]
    log: String,
    /// Serve no test images: for specs that start none, on a machine that has not built them
    #[arg(long)]
    no_images: bool,
    /// A further flag of `copepod server`; may be repeated
    #[arg(long = "server-flag", value_name = "FLAG", allow_hyphen_values = true)]
    server_flags: Vec<String>,
}

/// A cluster under test.
#[derive(Debug)]
pub(super) struct Subject {
    own: Option<(Cluster, Serving)>,
    kubeconfig: PathBuf,
}

impl Subject {
    /// The cluster of this kubeconfig.
    pub(super) fn given(kubeconfig: &Path) -> anyhow::Result<Self> {
        let kubeconfig = kubeconfig.canonicalize().with_context(|| kubeconfig.display().to_string())?;
        let subject = Self { own: None, kubeconfig };
        let mut kubectl = command(upstream::binary("kubectl")?);
        kubectl.arg("--kubeconfig").arg(&subject.kubeconfig).args(["get", "--raw=/readyz"]);
        let output = kubectl.output().context("kubectl")?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "the cluster is not ready: {said}");
        Ok(subject)
    }

    /// A node of our own that is Ready, resolves names, and gets every test image from a mirror beside it.
    pub(super) fn start(node: &Node) -> anyhow::Result<Self> {
        let mut images = Registry::default();
        if !node.no_images {
            images = images.with(Archive::open(images::ensure()?)?);
        }
        let bundle = node.bundle.clone().unwrap_or_else(|| workspace::root().join("bundle/current"));
        let bundle = bundle.canonicalize().with_context(|| {
            format!("{} is no bundle: make one with `cargo xtask bundle --no-archive`", bundle.display())
        })?;
        let mut options = ClusterOptions::new("conformance", bundle);
        options.log.clone_from(&node.log);
        options.flags.clone_from(&node.server_flags);
        let begun = Instant::now();
        let cluster = Cluster::start(&options, &mut |step| {
            eprintln!("{:6.1} s  {step}", begun.elapsed().as_secs_f64());
        })?;
        let mirror = mirror::serve(images, &cluster.node, Path::new(HOSTS))?;
        let kubeconfig = cluster.node.layout().kubeconfig("admin");
        Ok(Self { own: Some((cluster, mirror)), kubeconfig })
    }

    /// The node, if it is our own.
    pub(super) fn cluster(&self) -> Option<&Cluster> {
        self.own.as_ref().map(|(cluster, _)| cluster)
    }

    /// A command that reaches the cluster: on our own node, so that it can use the node's networks.
    pub(super) fn command(&self, program: &Path) -> Command {
        match self.cluster() {
            Some(cluster) => cluster.command(Side::Node, &program.to_string_lossy()),
            None => command(program),
        }
    }

    /// The administrator's kubeconfig as [`Subject::command`] sees it.
    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Copies what the components wrote into the folder `to`.
    pub(super) fn save_logs(&self, to: &Path) -> anyhow::Result<()> {
        let Some(cluster) = self.cluster() else { return Ok(()) };
        fs::create_dir_all(to).with_context(|| to.display().to_string())?;
        let logs = cluster.node.host_path("/var/log");
        let mut wanted = Vec::new();
        for folder in [logs.clone(), logs.join("pods")] {
            for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if name.ends_with(".log") || name.starts_with("kube-system_") {
                    wanted.push(path);
                }
            }
        }
        let status = command("cp").arg("-r").args(&wanted).arg(to).status().context("cp")?;
        ensure!(status.success(), "copying logs to {} failed: {status}", to.display());
        Ok(())
    }

    /// Says how to get at the node while it is kept.
    pub(super) fn announce(&self) {
        let Some(cluster) = self.cluster() else { return };
        let kubectl = cluster.bundle().join("bin/kubectl");
        println!("\nThe node is kept until Ctrl-C (or SIGTERM). In another terminal:");
        println!("    export KUBECONFIG={}", cluster.kubeconfig().display());
        println!("    {} get pods -A", kubectl.display());
        println!("    cargo xtask conformance run --kubeconfig $KUBECONFIG --spec …   # more specs on it");
        println!("    nsenter -t {} -m -n -p -u -i -C  # a shell on it", cluster.node.init_pid());
        println!("    its files: {}", cluster.node.host_path("/").display());
    }

    /// Removes the node.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        if let Some((cluster, mirror)) = self.own {
            drop(mirror);
            cluster.stop()?;
        }
        Ok(())
    }
}
