//! `cargo xtask oracle kubectl`: what kubectl shows of both API servers and controller-managers.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::Args;

use crate::{upstream, workspace};

/// What to compare.
#[derive(Debug, Args)]
pub(crate) struct Kubectl {
    /// Lines of tests/e2e/kubectl/commands.txt to compare, three digits each; all where none is named (all are run).
    lines: Vec<String>,
    /// The program that is compared.
    #[arg(long, default_value = "bundle/current/bin/copepod")]
    copepod: PathBuf,
}

/// Runs the commands on both; fails when an answer differs.
pub(super) fn run(options: &Kubectl) -> anyhow::Result<ExitCode> {
    for group in [upstream::Group::Bundled, upstream::Group::Oracle] {
        upstream::ensure(group)?;
    }
    let results = workspace::root().join("target/kubectl");
    let status = copepod_sys::command("bash")
        .arg(workspace::root().join("tests/e2e/kubectl/run.sh"))
        .args(&options.lines)
        .env("COPEPOD", workspace::root().join(&options.copepod))
        .env("APISERVER", upstream::binary("kube-apiserver")?)
        .env("KCM", upstream::binary("kube-controller-manager")?)
        .env("ETCD", upstream::binary("etcd")?)
        .env("KUBECTL", upstream::binary("kubectl")?)
        .env("RESULTS", &results)
        .status()
        .context("bash")?;
    if status.success() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("what each said is below {}", results.display());
    Ok(ExitCode::FAILURE)
}
