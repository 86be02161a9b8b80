//! Mixed operation: upstream's components on our API server, and ours on upstream's.
//!
//! Each mixture works beside a reference in which the judged components meet the API server of their own kind, doing the
//! same. A step of the work that fails counts, and so does an error in a judged component's log that its like in the
//! reference never wrote.

mod errors;
mod workload;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use copepod_sys::clock;
use copepod_testkit::Part;

use super::node::{Cast, Images, OracleNode, Who};
use crate::workspace;
use workload::Outcome;

/// The options of `cargo xtask oracle mixed`.
#[derive(Debug, Args)]
pub(crate) struct Mixed {
    /// How long each node works.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Only this mixture.
    #[arg(long)]
    ours: Option<Ours>,
    /// Our program.
    #[arg(long, default_value = "bundle/current/bin/copepod")]
    copepod: PathBuf,
}

/// What of a mixture is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ours {
    /// The API server, under upstream's controller-manager, scheduler, kubelet and proxy.
    Apiserver,
    /// Controller-manager, scheduler, kubelet and proxy, on upstream's API server.
    Components,
}

impl Ours {
    fn name(self) -> &'static str {
        match self {
            Self::Apiserver => "ours-apiserver",
            Self::Components => "ours-components",
        }
    }

    /// The mixture, and the reference whose components are of the same kind.
    fn casts(self, copepod: &Path) -> (Cast, Cast) {
        let cast = |apiserver, others| Cast {
            apiserver,
            controller_manager: others,
            scheduler: others,
            kubelet: others,
            proxy: others,
            copepod: copepod.to_owned(),
        };
        match self {
            Self::Apiserver => (cast(Who::Ours, Who::Upstream), cast(Who::Upstream, Who::Upstream)),
            Self::Components => (cast(Who::Upstream, Who::Ours), cast(Who::Ours, Who::Ours)),
        }
    }
}

/// Runs the mixtures one after the other.
pub(super) fn run(options: &Mixed) -> anyhow::Result<ExitCode> {
    let time = clock::now().strftime("%Y%m%d-%H%M%S");
    let to = workspace::root().join("target/oracle").join(format!("mixed-{time}-{}", std::process::id()));
    let images = Images::ensure()?;
    let mut good = true;
    for ours in [Ours::Apiserver, Ours::Components] {
        if options.ours.is_none_or(|only| only == ours) {
            good &= mixture(ours, options, &images, &to.join(ours.name()))?;
        }
    }
    println!("logs and report in {}", to.display());
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One mixture beside its reference; whether all is well.
fn mixture(ours: Ours, options: &Mixed, images: &Images, to: &Path) -> anyhow::Result<bool> {
    let (mixed, reference) = ours.casts(&options.copepod);
    // Not after the other has worked its ten minutes.
    mixed.parts()?;
    let time = Duration::from_secs(options.minutes * 60);
    println!("{}: {} minutes beside its reference", ours.name(), options.minutes);
    // Both at once, so that both meet the same load.
    let (mixed, reference) = std::thread::scope(|scope| {
        let run = |folder: &str, cast: &Cast| {
            // One name for both: logs hold it.
            let on = OracleNode::start("mixed", cast, images)?;
            work(on, time, &to.join(folder))
        };
        let other = scope.spawn(move || run("reference", &reference));
        let mixed = run("mixed", &mixed);
        (mixed, other.join())
    });
    let reference = reference.map_err(|_| anyhow::anyhow!("the reference's thread panicked"))?;
    let (mixed, reference) = (mixed.context("the mixture")?, reference.context("the reference")?);
    let (text, good) = report(ours, &mixed, &reference, to)?;
    print!("{text}");
    let path = to.join("report.txt");
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(good)
}

fn work(on: OracleNode, time: Duration, to: &Path) -> anyhow::Result<Outcome> {
    let outcome = workload::run(&on, time);
    workload::save_logs(&on, to)?;
    on.stop()?;
    outcome
}

fn report(ours: Ours, mixed: &Outcome, reference: &Outcome, to: &Path) -> anyhow::Result<(String, bool)> {
    let mut text = String::new();
    let mut good = mixed.failures.is_empty();
    for (name, outcome) in [("mixed", mixed), ("reference", reference)] {
        let failed = outcome.failures.len();
        text += &format!(
            "{}: {name}: {} rounds, {} steps, {failed} failed\n",
            ours.name(),
            outcome.rounds,
            outcome.steps
        );
        outcome.failures.iter().for_each(|failure| text += &format!("  {failure}\n"));
    }
    for part in Part::ALL.into_iter().filter(|part| *part != Part::Apiserver) {
        let read = |folder: &str| -> anyhow::Result<_> {
            let path = to.join(folder).join(format!("{}.log", part.program()));
            Ok(errors::find(&fs::read_to_string(&path).with_context(|| path.display().to_string())?))
        };
        let (found, known) = (read("mixed")?, read("reference")?);
        let new = errors::beyond(&found, &known);
        let kinds = (found.len(), known.len(), new.len());
        text += &format!(
            "{}: {} kinds of errors, {} in the reference, {} only here\n",
            part.program(),
            kinds.0,
            kinds.1,
            kinds.2
        );
        new.iter().for_each(|error| text += &format!("  {} x {}\n", error.count, error.first));
        good &= new.is_empty();
    }
    Ok((text, good))
}
