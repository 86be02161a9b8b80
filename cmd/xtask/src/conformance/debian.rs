//! Debian's packages as a layer, and its source packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use copepod_sys::command;
use sha2::{Digest, Sha256};

use crate::images::description::Debian;
use crate::workspace;

const MIRROR: &str = "http://deb.debian.org/debian";
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The layer of `debian` as a file, made first if need be.
pub(super) fn layer(debian: &Debian) -> anyhow::Result<PathBuf> {
    let inputs = format!("{debian:?}");
    let key: String = hex::encode(Sha256::digest(inputs)).chars().take(12).collect();
    let home = workspace::cache()?.join("conformance");
    let layer = home.join(format!("debian-{}-{key}-{}.tar", debian.suite, workspace::host_arch()?));
    if layer.exists() {
        return Ok(layer);
    }
    eprintln!("making a root file system of {} with {}", debian.suite, debian.packages.join(", "));
    fs::create_dir_all(&home)?;
    let root = home.join(format!("root-{}", std::process::id()));
    bootstrap(debian, &root)?;
    trim(debian, &root)?;
    let unfinished = layer.with_extension(format!("unfinished-{}", std::process::id()));
    let mut tar = command("tar");
    tar.args(["--sort=name", "--mtime=@0", "--numeric-owner"]);
    tar.args(["--exclude=./dev/*", "--exclude=./proc/*", "--exclude=./sys/*"]);
    run(tar.arg("-cf").arg(&unfinished).arg("-C").arg(&root).arg("."))?;
    fs::rename(&unfinished, &layer)?;
    fs::remove_dir_all(&root).with_context(|| root.display().to_string())?;
    Ok(layer)
}

/// In a mount namespace of its own: debootstrap mounts a /proc in the new root.
fn bootstrap(debian: &Debian, root: &Path) -> anyhow::Result<()> {
    let log = root.with_extension("log");
    let output = fs::File::create(&log)?;
    let mut bootstrap = command("unshare");
    bootstrap.args(["--mount", "--", "nice", "-n", "10", "debootstrap", "--variant=minbase"]);
    bootstrap.arg(format!("--include={}", debian.packages.join(",")));
    bootstrap.arg(&debian.suite).arg(root).arg(MIRROR).stdout(output.try_clone()?).stderr(output);
    run(&mut bootstrap).with_context(|| format!("see {}", log.display()))?;
    fs::remove_file(&log).with_context(|| log.display().to_string())
}

fn trim(debian: &Debian, root: &Path) -> anyhow::Result<()> {
    let remove = format!("rm -rf -- {}", debian.remove.join(" "));
    run(command("sh").args(["-c", &remove]).current_dir(root))?;
    for (path, lines) in &debian.append {
        let path = root.join(path.trim_start_matches('/'));
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        fs::write(&path, text + lines)?;
    }
    Ok(())
}

/// Debian's source packages of one suite, without touching the machine's own lists.
#[derive(Debug)]
pub(super) struct Sources {
    options: Vec<String>,
}

impl Sources {
    /// Fetches the suite's list into the folder `state`.
    pub(super) fn new(suite: &str, state: &Path) -> anyhow::Result<Self> {
        for folder in ["lists/partial", "archives/partial"] {
            fs::create_dir_all(state.join(folder))?;
        }
        let list = state.join("sources.list");
        fs::write(&list, format!("deb-src [signed-by={KEYS}] {MIRROR} {suite} main\n"))?;
        let options = [
            ("Dir::Etc::SourceList", list),
            ("Dir::Etc::SourceParts", PathBuf::from("-")),
            ("Dir::State::Lists", state.join("lists")),
            ("Dir::Cache", state.to_path_buf()),
            ("APT::Sandbox::User", PathBuf::from("root")),
        ];
        let options = options.iter().map(|(key, value)| format!("-o{key}={}", value.display())).collect();
        let sources = Self { options };
        run(sources.apt().args(["-qq", "update"]))?;
        Ok(sources)
    }

    /// Fetches the source of `package` into the folder `to`.
    pub(super) fn download(&self, package: &str, to: &Path) -> anyhow::Result<()> {
        run(self.apt().args(["-qq", "source", "--download-only", package]).current_dir(to))
    }

    fn apt(&self) -> Command {
        let mut apt = command("apt-get");
        apt.args(&self.options);
        apt
    }
}

pub(super) fn run(command: &mut Command) -> anyhow::Result<()> {
    let status =
        command.status().with_context(|| format!("{command:?} (is it installed? `make deps` does)"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}
