//! busybox from its unpatched source, as Debian keeps it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use copepod_sys::command;

use super::debian::{Sources, run};
use crate::workspace;

/// The suite whose source package is of this version, and the sum of the unpatched source in it.
const SOURCES: &[(&str, &str, &str)] =
    &[("1.37.0", "trixie", "3311dff32e746499f4df0d5df04d7eb396382d7e108bb9250e7b519b837043a4")];

/// Switches that differ from the default configuration: one file without libraries, and no traffic control, which does
/// not compile with today's kernel headers.
const SWITCHES: &str = "s/^# CONFIG_STATIC is not set/CONFIG_STATIC=y/; s/^CONFIG_TC=y/# CONFIG_TC is not set/; \
    s/^CONFIG_FEATURE_TC_INGRESS=y/# CONFIG_FEATURE_TC_INGRESS is not set/";

/// The program of `version`, built first if need be.
pub(crate) fn program(version: &str) -> anyhow::Result<PathBuf> {
    let (_, suite, sum) = SOURCES
        .iter()
        .find(|(known, ..)| *known == version)
        .with_context(|| format!("no source of busybox {version} is known"))?;
    let home = workspace::cache()?.join(format!("conformance/busybox-{version}-{}", workspace::host_arch()?));
    let program = home.join("busybox");
    if !program.exists() {
        eprintln!("building busybox {version}");
        fs::create_dir_all(&home)?;
        let work = home.join(format!("work-{}", std::process::id()));
        fs::create_dir_all(&work)?;
        let built = build(version, suite, sum, &work)?;
        fs::rename(built, &program)?;
        fs::remove_dir_all(&work)?;
    }
    Ok(program)
}

fn build(version: &str, suite: &str, sum: &str, work: &Path) -> anyhow::Result<PathBuf> {
    Sources::new(suite, &work.join("apt"))?.download("busybox", work)?;
    let archive = work.join(format!("busybox_{version}.orig.tar.bz2"));
    let said = command("sha256sum").arg(&archive).output().context("sha256sum")?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    ensure!(said.starts_with(sum), "{} has the SHA-256 {said}, expected {sum}", archive.display());
    run(command("tar").arg("-xjf").arg(&archive).arg("-C").arg(work))?;
    let source = work.join(format!("busybox-{version}"));
    let make = |goal: &[&str]| {
        let mut make = command("nice");
        make.args(["-n", "10", "make", "-s", "-j2"]).args(goal).current_dir(&source);
        // The time would make every build another image.
        // The configuration asks its hundreds of questions on standard output, and answers them itself.
        make.stdout(std::process::Stdio::null());
        run(make.env("KCONFIG_NOTIMESTAMP", "1").env("SOURCE_DATE_EPOCH", "0"))
    };
    make(&["defconfig"])?;
    run(command("sed").args(["-i", SWITCHES]).arg(source.join(".config")))?;
    make(&["busybox"])?;
    Ok(source.join("busybox"))
}
