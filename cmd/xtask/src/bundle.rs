//! The bundle: everything a machine without network needs, as one archive with the sums of its parts.
//!
//! ```text
//! copepod-<version>-<arch>/
//!   bin/          our programs and upstream's
//!   images/       OCI archives
//!   share/        the service in the form of each init that we know
//!   SHA256SUMS    of all the above; `sha256sum -c` checks it
//! copepod-<version>-<arch>.tar.gz and .tar.gz.sha256, also under the name without version; install.sh
//! ```
//!
//! `bundle/current` links to the unpacked folder, for tests and for `copepod try` in a source checkout.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, ensure};
use clap::Args;
use copepod_sys::command;
use sha2::{Digest, Sha256};

use crate::{cargo, images, upstream, workspace};

/// The options of `cargo xtask bundle`.
#[derive(Debug, Args)]
pub(crate) struct Bundle {
    /// The cargo profile of our own programs.
    #[arg(long, default_value = cargo::RELEASE)]
    profile: String,
    /// Only the unpacked folder, which is what tests use.
    #[arg(long)]
    no_archive: bool,
}

/// The packages whose programs are shipped.
const PACKAGES: &[&str] = &["copepod", "copepod-cni-plugin", "pause"];

/// Our programs. (`pause` is shipped inside its image.)
const OURS: &[&str] = &["copepod", "copepod-cni"];

/// Upstream's programs outside images. etcd itself runs only in its image.
const UPSTREAM: &[&str] =
    &["containerd", "containerd-shim-runc-v2", "ctr", "runc", "kubectl", "crictl", "etcdctl", "etcdutl"];

/// Files of the tree that a node's machine needs as well.
const SHARED: &[(&str, &str)] = &[
    ("packaging/systemd/copepod.service", "share/systemd/copepod.service"),
    ("packaging/openrc/copepod", "share/openrc/copepod"),
    ("packaging/background/copepod-background", "share/background/copepod-background"),
];

/// Builds everything and puts it together.
pub(crate) fn run(options: &Bundle) -> anyhow::Result<()> {
    upstream::ensure(upstream::Group::Bundled)?;
    let programs = cargo::build(&options.profile, PACKAGES)?;
    let bundles = workspace::root().join("bundle");
    let name = format!("copepod-{}-{}", env!("CARGO_PKG_VERSION"), workspace::host_arch()?);
    let folder = bundles.join(&name);
    let unfinished = bundles.join(format!(".{name}.unfinished"));
    collect(&unfinished, &programs)?;
    fs::write(unfinished.join("SHA256SUMS"), sums(&unfinished)?)?;
    replace(&unfinished, &folder)?;
    link_current(&bundles, &name)?;
    println!("bundle in {}", folder.display());
    if !options.no_archive {
        let archive = bundles.join(format!("{name}.tar.gz"));
        write_archive(&folder, &name, &archive)?;
        publish(&bundles, &archive)?;
        println!("archive {} ({} kB)", archive.display(), fs::metadata(&archive)?.len() / 1000);
    }
    Ok(())
}

/// Puts the folder `new` in the place of `old`, of which nothing stays: a node may be running from it right now.
fn replace(new: &Path, old: &Path) -> anyhow::Result<()> {
    let aside = new.with_extension("replaced");
    if aside.exists() {
        fs::remove_dir_all(&aside).with_context(|| aside.display().to_string())?;
    }
    if old.exists() {
        fs::rename(old, &aside).with_context(|| old.display().to_string())?;
    }
    fs::rename(new, old).with_context(|| old.display().to_string())?;
    if aside.exists() {
        fs::remove_dir_all(&aside).with_context(|| aside.display().to_string())?;
    }
    Ok(())
}

/// Makes `bundle/` what the folder of a release is: the sum, the names that the installer asks for, the installer.
fn publish(bundles: &Path, archive: &Path) -> anyhow::Result<()> {
    let sum = digest(archive)?;
    let short = bundles.join(format!("copepod-{}.tar.gz", workspace::host_arch()?));
    if short.exists() {
        fs::remove_file(&short)?;
    }
    fs::hard_link(archive, &short)?;
    for path in [archive, &short] {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        fs::write(bundles.join(format!("{name}.sha256")), format!("{sum}  {name}\n"))?;
    }
    install(&workspace::root().join("install.sh"), &bundles.join("install.sh"))
}

fn collect(folder: &Path, programs: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).with_context(|| bin.display().to_string())?;
    for (from, to) in SHARED {
        let to = folder.join(to);
        to.parent().map_or(Ok(()), fs::create_dir_all)?;
        install(&workspace::root().join(from), &to)?;
    }
    for name in OURS {
        install(&programs.join(name), &bin.join(name))?;
    }
    for name in UPSTREAM {
        install(&upstream::binary(name)?, &bin.join(name))?;
    }
    images::all()?.iter().try_for_each(|name| images::build(name, programs, &folder.join("images")))
}

/// Replaces in one step: the old file may be running.
fn install(from: &Path, to: &Path) -> anyhow::Result<()> {
    let unfinished = to.with_extension("unfinished");
    fs::copy(from, &unfinished).with_context(|| from.display().to_string())?;
    let executable = fs::metadata(from)?.permissions().mode() & 0o111 != 0;
    fs::set_permissions(&unfinished, fs::Permissions::from_mode(if executable { 0o755 } else { 0o644 }))?;
    fs::rename(&unfinished, to).with_context(|| to.display().to_string())
}

fn link_current(bundles: &Path, name: &str) -> anyhow::Result<()> {
    let unfinished = bundles.join("current.unfinished");
    if unfinished.is_symlink() {
        fs::remove_file(&unfinished)?;
    }
    std::os::unix::fs::symlink(name, &unfinished)?;
    fs::rename(&unfinished, bundles.join("current")).context("bundle/current")
}

/// Every file below `folder` but the list of sums itself, sorted, relative.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![folder.to_path_buf()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else if let Ok(relative) = path.strip_prefix(folder)
                && relative != Path::new("SHA256SUMS")
            {
                found.push(relative.to_path_buf());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn sums(folder: &Path) -> anyhow::Result<String> {
    let line = |file: &PathBuf| -> anyhow::Result<String> {
        Ok(format!("{}  {}\n", digest(&folder.join(file))?, file.display()))
    };
    files(folder)?.iter().map(line).collect()
}

fn digest(path: &Path) -> anyhow::Result<String> {
    struct Hasher(Sha256);
    impl Write for Hasher {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut hasher = Hasher(Sha256::new());
    io::copy(&mut File::open(path).with_context(|| path.display().to_string())?, &mut hasher)?;
    Ok(hex::encode(hasher.0.finalize()))
}

/// The same bytes for the same files: sorted, without times and owners.
fn write_archive(folder: &Path, name: &str, to: &Path) -> anyhow::Result<()> {
    let unfinished = to.with_extension("unfinished");
    // The program is many times faster than a library built without optimisation, as this task's are. -n: no time stamp.
    let mut gzip = command("gzip")
        .args(["-n", "-6"])
        .stdin(Stdio::piped())
        .stdout(File::create(&unfinished)?)
        .spawn()?;
    let stdin = gzip.stdin.take().context("gzip has no input")?;
    let mut tar = tar::Builder::new(BufWriter::with_capacity(1 << 20, stdin));
    let mut paths = files(folder)?;
    paths.push(PathBuf::from("SHA256SUMS"));
    for path in paths {
        let mut from = File::open(folder.join(&path))?;
        let metadata = from.metadata()?;
        let mut header = tar::Header::new_gnu();
        header.set_size(metadata.len());
        header.set_mode(metadata.permissions().mode() & 0o777);
        header.set_mtime(0);
        tar.append_data(&mut header, Path::new(name).join(&path), &mut from)?;
    }
    tar.into_inner()?.flush()?;
    let status = gzip.wait().context("gzip")?;
    ensure!(status.success(), "gzip failed: {status}");
    fs::rename(&unfinished, to).with_context(|| to.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_of_every_file_and_in_the_form_of_sha256sum() {
        let dir = std::env::temp_dir().join(format!("copepod-bundle-{}", std::process::id()));
        fs::create_dir_all(dir.join("bin")).unwrap();
        fs::write(dir.join("bin/b"), "b").unwrap();
        fs::write(dir.join("a"), "").unwrap();
        fs::write(dir.join("SHA256SUMS"), "old").unwrap();
        let sums = sums(&dir).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(
            sums,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n\
             3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d  bin/b\n"
        );
    }
}
