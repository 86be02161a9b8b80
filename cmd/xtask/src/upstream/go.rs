//! The Go toolchain: the machine's own where there is one, else fetched privately from the Go module proxy.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use copepod_sys::command;

use crate::workspace;

/// The toolchain fetched where Go is missing, with the SHA-256 of its zip on the module proxy.
const VERSION: &str = "1.26.8";
const SUMS: &[(&str, &str)] = &[
    ("amd64", "30c2b1bf7dcc88d3eb0a1364e47ddd9128edb3110a30e8a0ef61cd5856b31de7"),
    ("arm64", "02b36b6787b3ac767668f630e2998df45a3b1f9ffee08d1bf3ef6487cd658d99"),
];

/// Where Go installs itself; not everybody has it in the PATH.
const INSTALLED: &str = "/usr/local/go/bin/go";

/// Since this minor version Go fetches by itself the toolchain that a go.mod asks for.
const SELF_UPDATING_MINOR: u32 = 21;

/// `arch` again, if this project builds for it.
pub(super) fn known_arch(arch: &str) -> anyhow::Result<&'static str> {
    match SUMS.iter().find(|(known, _)| *known == arch) {
        Some((known, _)) => Ok(known),
        None => bail!("no build for the architecture {arch}; known are amd64 and arm64"),
    }
}

/// A usable `go` program, fetched first if the machine has none.
pub(super) fn find() -> anyhow::Result<PathBuf> {
    for candidate in ["go", INSTALLED] {
        let Ok(output) = command(candidate).arg("version").output() else { continue };
        if usable(&String::from_utf8_lossy(&output.stdout)) {
            return Ok(PathBuf::from(candidate));
        }
    }
    fetch()
}

/// Whether the answer of `go version` names a Go that can build (or fetch what can build) our modules.
fn usable(answer: &str) -> bool {
    let minor = answer
        .split("go1.")
        .nth(1)
        .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
    minor.and_then(|digits| digits.parse::<u32>().ok()).is_some_and(|minor| minor >= SELF_UPDATING_MINOR)
}

fn fetch() -> anyhow::Result<PathBuf> {
    let arch = workspace::host_arch()?;
    let home = workspace::cache()?.join("go");
    let root = home.join(format!("golang.org/toolchain@v0.0.1-go{VERSION}.linux-{arch}"));
    let go = root.join("bin/go");
    if go.exists() {
        return Ok(go);
    }
    fs::create_dir_all(&home)?;
    let zip = home.join(format!("go{VERSION}.linux-{arch}.zip"));
    let url = format!("{}/golang.org/toolchain/@v/v0.0.1-go{VERSION}.linux-{arch}.zip", proxy());
    eprintln!(
        "Go is missing on this machine: fetching go{VERSION} privately from {url} into {}",
        home.display()
    );
    run(command("curl").args(["-fsSL", "--retry", "3", "-o"]).arg(&zip).arg(&url))?;
    check_sum(&zip, arch)?;
    run(command("unzip").args(["-q", "-o"]).arg(&zip).arg("-d").arg(&home))?;
    // Module zips carry no file modes.
    make_executable(&root.join("pkg/tool").join(format!("linux_{arch}")))?;
    fs::remove_file(&zip)?;
    make_executable(&root.join("bin"))?;
    Ok(go)
}

/// The first module proxy of `GOPROXY`, or the public one.
fn proxy() -> String {
    let configured = std::env::var("GOPROXY").unwrap_or_default();
    let first = configured.split([',', '|']).find(|p| p.starts_with("http"));
    first.unwrap_or("https://proxy.golang.org").trim_end_matches('/').to_string()
}

fn check_sum(zip: &Path, arch: &str) -> anyhow::Result<()> {
    let output = command("sha256sum").arg(zip).output().context("sha256sum")?;
    let actual = String::from_utf8_lossy(&output.stdout);
    let actual = actual.split_whitespace().next().unwrap_or_default();
    let expected = SUMS.iter().find(|(known, _)| *known == arch).map(|(_, sum)| *sum);
    ensure!(expected == Some(actual), "{} has the SHA-256 {actual}, expected {expected:?}", zip.display());
    Ok(())
}

fn make_executable(dir: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        fs::set_permissions(entry?.path(), fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn run(command: &mut std::process::Command) -> anyhow::Result<()> {
    let status =
        command.status().with_context(|| format!("{command:?} (is it installed? `make deps` does)"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_or_absent_go_is_not_usable() {
        assert!(usable("go version go1.26.8 linux/amd64"));
        assert!(usable("go version go1.21 linux/arm64"));
        assert!(!usable("go version go1.19.8 linux/amd64"));
        assert!(!usable("bash: go: command not found"));
    }

    #[test]
    fn only_architectures_with_a_pinned_toolchain_are_known() {
        assert_eq!(known_arch("arm64").unwrap(), "arm64");
        assert!(known_arch("x86_64").is_err());
    }
}
