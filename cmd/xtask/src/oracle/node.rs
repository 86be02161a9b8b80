//! A node of upstream's and our components, with images to run on it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ValueEnum};
use copepod_image::{Archive, Registry, Serving};
use copepod_testkit::{Implementation, Node, Oracle, Part, Parts, Side};

use crate::{conformance, images, mirror, upstream, workspace};

/// What the node needs for its own pods, and a shell.
const IMAGES: [&str; 2] = ["pause", "busybox"];

/// Who plays the parts.
#[derive(Clone, Debug, Args)]
pub(crate) struct Cast {
    #[arg(long, default_value = "upstream")]
    pub(super) apiserver: Who,
    #[arg(long, default_value = "upstream")]
    pub(super) controller_manager: Who,
    #[arg(long, default_value = "upstream")]
    pub(super) scheduler: Who,
    /// With containerd, a bridge network and CoreDNS.
    #[arg(long, default_value = "none")]
    pub(super) kubelet: Who,
    #[arg(long, default_value = "none")]
    pub(super) proxy: Who,
    /// The program that plays the parts of `ours`.
    #[arg(long, default_value = "bundle/current/bin/copepod")]
    pub(super) copepod: PathBuf,
}

/// Whose program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Who {
    Upstream,
    Ours,
    None,
}

impl Cast {
    /// The parts; an error when a program of ours is wanted and not there.
    pub(super) fn parts(&self) -> anyhow::Result<Parts> {
        let wishes = [self.apiserver, self.controller_manager, self.scheduler, self.kubelet, self.proxy];
        let copepod = workspace::root().join(&self.copepod);
        if wishes.contains(&Who::Ours) {
            let exists = copepod.exists();
            anyhow::ensure!(exists, "{} is not there: `cargo xtask bundle` makes it", copepod.display());
        }
        // A bundle that is made anew takes another folder's name.
        let copepod = copepod.canonicalize().unwrap_or(copepod);
        Ok(Part::ALL.into_iter().zip(wishes).fold(Parts::default(), |parts, (part, who)| {
            let implementation = match who {
                Who::Upstream => Implementation::Upstream,
                Who::Ours => Implementation::Ours(copepod.clone()),
                Who::None => Implementation::None,
            };
            parts.with(part, implementation)
        }))
    }
}

/// The running node.
#[derive(Debug)]
pub(super) struct OracleNode {
    pub(super) node: Node,
    pub(super) oracle: Oracle,
    mirror: Option<Serving>,
}

impl OracleNode {
    /// Starts it; where there is a kubelet, its containerd finds `images` in a mirror.
    pub(super) fn start(name: &str, cast: &Cast, images: &Images) -> anyhow::Result<Self> {
        let parts = cast.parts()?;
        let registry = parts.plays(Part::Kubelet).then(|| images.registry()).transpose()?;
        let mut node = Node::builder().name(name).start()?;
        let mirror =
            registry.map(|images| mirror::serve(images, &node, &Oracle::mirror_file())).transpose()?;
        let oracle = Oracle::start(&mut node, &parts)?;
        Ok(Self { node, oracle, mirror })
    }

    /// Writes the administrator's kubeconfig for the API server at `server`.
    pub(super) fn write_kubeconfig(&self, path: &Path, server: &str) -> anyhow::Result<()> {
        std::fs::write(path, self.oracle.kubeconfig(server)).with_context(|| path.display().to_string())
    }

    /// Runs a command on the node to its end, with upstream's kubectl at hand.
    pub(super) fn run(&self, program: &OsStr, words: &[OsString]) -> anyhow::Result<ExitCode> {
        let kubectl = upstream::binary("kubectl")?;
        let bin = kubectl.parent().unwrap_or(&kubectl).display().to_string();
        let mut command = self.node.command(Side::Node, program);
        command.env("KUBECONFIG", self.node.layout().kubeconfig("admin"));
        command.env("PATH", format!("{bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
        let status = command.args(words).status().with_context(|| program.display().to_string())?;
        Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
    }

    /// Removes the node.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        drop(self.mirror);
        Ok(self.node.stop()?)
    }
}

/// Archives of what there is to run: pause, busybox, and the test images where they are built.
#[derive(Debug)]
pub(super) struct Images(Vec<PathBuf>);

impl Images {
    /// Makes what is missing of them.
    pub(super) fn ensure() -> anyhow::Result<Self> {
        let folder = workspace::root().join("target/oracle/images");
        images::build_all(&IMAGES.map(str::to_owned), "dev", &folder)?;
        let mut archives = IMAGES.map(|name| folder.join(format!("{name}.tar"))).to_vec();
        let tests = conformance::images::archive()?;
        if tests.exists() {
            archives.push(tests);
        } else {
            println!(
                "the test images are not built (`cargo xtask conformance images`); there are {IMAGES:?}"
            );
        }
        Ok(Self(archives))
    }

    fn registry(&self) -> anyhow::Result<Registry> {
        let mut registry = Registry::default();
        for path in &self.0 {
            registry = registry.with(Archive::open(path)?);
        }
        Ok(registry)
    }
}
