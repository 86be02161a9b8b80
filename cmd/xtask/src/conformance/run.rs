//! One run: a cluster, some specs, their verdicts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, ensure};
use clap::Args;
use copepod_sys::clock;
use tokio::time::Instant;

use super::invoke::{self, Invocation};
use super::results::{Results, Verdict};
use super::specs::{self, Choice};
use super::subject::{self, Subject};
use super::{document, folder, images, junit, preflight, witness};
use crate::{oracle, upstream, workspace};

/// Quick specs of every SIG, for a check of each change.
const SMOKE: &str = "testdata/conformance/smoke.txt";

/// The options of `cargo xtask conformance run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Only this special interest group; may be repeated
    #[arg(long)]
    sig: Vec<String>,
    /// Only specs that match this regular expression; may be repeated, any match counts
    #[arg(long)]
    focus: Vec<String>,
    /// No specs that match this regular expression; may be repeated
    #[arg(long)]
    skip: Vec<String>,
    /// Only the spec of this name (the tags at its end may be left out); may be repeated
    #[arg(long)]
    spec: Vec<String>,
    /// Only the specs named in this file, one a line
    #[arg(long)]
    list: Option<PathBuf>,
    /// Only the quick specs of testdata/conformance/smoke.txt
    #[arg(long)]
    smoke: bool,
    /// Do nothing, and say so, where the suite or its images have not been built
    #[arg(long)]
    if_built: bool,
    /// Only specs that are not known to pass yet
    #[arg(long)]
    not_passed: bool,
    /// The i-th of n parts of what is chosen otherwise
    #[arg(long, value_name = "I/N")]
    shard: Option<String>,
    /// So many specs at the same time; those marked Serial run alone all the same
    #[arg(long, default_value_t = 1)]
    parallel: usize,
    /// Keep the node until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Test the cluster of this kubeconfig, from where this command stands
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Test even on a machine that is not fit for it
    #[arg(long)]
    force: bool,
    /// Show the suite's output here
    #[arg(long, short)]
    verbose: bool,
    /// When to give up, in Go's words
    #[arg(long, default_value = "6h")]
    timeout: String,
    #[command(flatten)]
    node: subject::Node,
    /// Further flags of e2e.test
    #[arg(last = true)]
    flags: Vec<String>,
}

/// Runs what is chosen; fails if a spec does.
pub(super) fn run(options: &Run) -> anyhow::Result<ExitCode> {
    if options.if_built && !is_built()? {
        println!(
            "The conformance suite is not built on this machine, so no spec is run (cargo xtask conformance build)."
        );
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = choose(options)?;
    ensure!(!chosen.is_empty(), "no spec is chosen");
    upstream::ensure(upstream::Group::Bundled)?;
    upstream::ensure_tool("suite")?;
    let begun = Instant::now();
    let to = make_folder()?;
    let subject = match &options.kubeconfig {
        Some(kubeconfig) => Subject::given(kubeconfig)?,
        None => {
            preflight::check(options.force)?;
            Subject::start(&options.node)?
        }
    };
    let outcome = test(options, &subject, &chosen, &to);
    if let Ok(results) = &outcome {
        report(results, &chosen, &to, begun.elapsed().as_secs_f64());
    }
    if !outcome.as_ref().is_ok_and(|results| is_good(results, &chosen)) {
        subject.save_logs(&to.join("logs"))?;
        eprintln!("logs of the components in {}", to.join("logs").display());
    }
    if options.keep {
        if let Err(error) = &outcome {
            eprintln!("{error:#}");
        }
        subject.announce();
        oracle::wait_for_interrupt()?;
    }
    subject.stop()?;
    let results = outcome?;
    // What another cluster can do says nothing about ours.
    if options.kubeconfig.is_none() {
        let all = results.collect()?;
        if choice(options)?.is_everything() {
            document::write(&all)?;
        }
    }
    Ok(if is_good(&results, &chosen) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_built() -> anyhow::Result<bool> {
    Ok(upstream::binary("e2e.test")?.exists()
        && upstream::binary("ginkgo")?.exists()
        && images::archive()?.exists())
}

fn choice(options: &Run) -> anyhow::Result<Choice> {
    let mut named = options.spec.clone();
    let smoke = options.smoke.then(|| workspace::root().join(SMOKE));
    for path in options.list.iter().chain(&smoke) {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        named.extend(lines.map(str::to_string));
    }
    Ok(Choice {
        sigs: options.sig.clone(),
        focus: options.focus.clone(),
        skip: options.skip.clone(),
        specs: named,
        shard: options.shard.clone(),
    })
}

fn choose(options: &Run) -> anyhow::Result<Vec<String>> {
    let mut all = specs::all()?;
    if options.not_passed {
        let known = Results::collected()?;
        all.retain(|spec| known.specs.get(spec).is_none_or(|outcome| outcome.verdict != Verdict::Passed));
    }
    choice(options)?.apply(all)
}

/// A folder for this run alone.
fn make_folder() -> anyhow::Result<PathBuf> {
    let time = clock::now().strftime("%Y%m%d-%H%M%S");
    let path = folder().join(format!("{time}-{}", std::process::id()));
    fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
    Ok(path)
}

fn test(options: &Run, subject: &Subject, chosen: &[String], to: &Path) -> anyhow::Result<Results> {
    let invocation = Invocation {
        specs: chosen,
        parallel: options.parallel,
        timeout: &options.timeout,
        flags: &options.flags,
        shown: options.verbose,
    };
    let done = AtomicBool::new(false);
    let (invoked, peak) = std::thread::scope(|scope| {
        let node = subject.cluster().map(|cluster| &cluster.node);
        let witness = node.map(|node| scope.spawn(|| witness::watch(node, &done)));
        let invoked = invoke::invoke(subject, &invocation, to);
        done.store(true, Ordering::Release);
        let peak = witness.and_then(|witness| {
            witness.thread().unpark();
            witness.join().ok().flatten()
        });
        (invoked, peak)
    });
    invoked?;
    let run = to.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let report = junit::read(&to.join(invoke::JUNIT), &run)?;
    if let Some(broken) = &report.broken {
        eprintln!("the suite itself failed: {broken}");
    }
    let results = Results { specs: report.outcomes.into_iter().collect(), apiserver_peak_kib: peak };
    results.write(to)?;
    Ok(results)
}

fn is_good(results: &Results, chosen: &[String]) -> bool {
    results.count(Verdict::Passed) == chosen.len()
}

fn report(results: &Results, chosen: &[String], to: &Path, seconds: f64) {
    for (spec, outcome) in &results.specs {
        let word = match outcome.verdict {
            Verdict::Passed => "passed ",
            Verdict::Failed => "FAILED ",
            Verdict::Skipped => "skipped",
        };
        println!("{word} {:7.1} s  {spec}", outcome.seconds);
        if !outcome.cause.is_empty() {
            println!("                   {}", outcome.cause);
        }
    }
    let not_run = chosen.iter().filter(|spec| !results.specs.contains_key(*spec)).count();
    let count = |verdict| results.count(verdict);
    if let Some(peak) = results.apiserver_peak_kib {
        println!("\nthe API server's peak memory: {} MiB", peak >> 10);
    }
    // In libtest's form, which CI counts.
    println!(
        "test result: {}. {} passed; {} failed; {} ignored; {not_run} not run; finished in {seconds:.0}s",
        if is_good(results, chosen) { "ok" } else { "FAILED" },
        count(Verdict::Passed),
        count(Verdict::Failed),
        count(Verdict::Skipped),
    );
    println!("{} and {} in {}", invoke::JUNIT, invoke::OUTPUT, to.display());
}
