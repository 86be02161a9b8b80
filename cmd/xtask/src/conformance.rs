//! Upstream's conformance suite as a tool of minutes: its programs, its images, its verdicts.
//!
//! `build` makes the suite's programs from pinned Go modules, `images` rebuilds the test images, `run` tests a fresh node
//! of its own (or any cluster by its kubeconfig), `diff` compares two runs. Every run leaves a folder of its own below
//! `target/conformance` with JUnit and logs, and adds its verdicts to `target/conformance/results.json`, from which alone
//! `docs/conformance.md` is written.

pub(crate) mod busybox;
mod cmd;
mod debian;
mod diff;
mod document;
pub(crate) mod images;
mod invoke;
mod junit;
mod preflight;
mod results;
mod run;
mod specs;
mod subject;
mod witness;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use crate::{upstream, workspace};

/// The subcommands of `cargo xtask conformance`.
#[derive(Debug, Subcommand)]
pub(crate) enum Conformance {
    /// Build upstream's suite, its components and the test programs, as far as they are missing.
    Build,
    /// Build the archive of test images, as far as it is missing.
    Images,
    /// Run specs and write down what came of them.
    Run(Box<run::Run>),
    /// Run upstream's kubectl scenarios against our API server and controller-manager.
    Cmd(cmd::Cmd),
    /// Compare two runs: results.json, a JUnit file, or a run's folder.
    Diff {
        /// The earlier one.
        old: PathBuf,
        /// The later one.
        new: PathBuf,
    },
    /// Write docs/conformance.md from the collected results, or from those of certain runs.
    Document {
        /// results.json, JUnit files or runs' folders; of two verdicts on a spec the last one counts.
        runs: Vec<PathBuf>,
    },
    /// List the names of all specs; with a SIG, of its own.
    List {
        /// Such as `network` or `sig-network`.
        sig: Option<String>,
    },
}

/// Runs one subcommand.
pub(crate) fn run(task: &Conformance) -> anyhow::Result<ExitCode> {
    match task {
        Conformance::Build => {
            let groups = [
                upstream::Group::Bundled,
                upstream::Group::Suite,
                upstream::Group::Oracle,
                upstream::Group::Test,
            ];
            groups.into_iter().try_for_each(upstream::ensure)?;
        }
        Conformance::Images => println!("{}", images::ensure()?.display()),
        Conformance::Run(options) => return run::run(options),
        Conformance::Cmd(options) => return cmd::run(options),
        Conformance::Diff { old, new } => {
            let (old, new) = (results::Results::read(old)?, results::Results::read(new)?);
            print!("{}", diff::render(&old, &new, &specs::upstream_seconds()?));
        }
        Conformance::Document { runs } if runs.is_empty() => {
            document::write(&results::Results::collected()?)?;
        }
        Conformance::Document { runs } => document::write(&results::Results::of(runs)?)?,
        Conformance::List { sig } => {
            let choice = specs::Choice { sigs: sig.iter().cloned().collect(), ..specs::Choice::default() };
            choice.apply(specs::all()?)?.iter().for_each(|spec| println!("{spec}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Where runs leave what they found.
fn folder() -> PathBuf {
    workspace::root().join("target/conformance")
}
