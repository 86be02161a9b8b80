//! Upstream's kubectl scenarios (`test/cmd`) against our API server and controller-manager.
//!
//! Verdicts are collected over runs, those on upstream's servers apart: a run of some names leaves the others' standing.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, ensure};
use clap::Args;

use super::{
    folder,
    results::{Outcome, Results, Verdict},
};
use crate::{upstream, workspace};

/// What the driver checks between its scenarios has a verdict of its own in runs of all.
const BETWEEN: &str = "between";

/// Which scenarios, on whose servers.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    /// Names of scenarios, such as `pod`; all where none is given.
    names: Vec<String>,
    /// Those without a passing verdict so far.
    #[arg(long, conflicts_with = "names")]
    not_passed: bool,
    /// The program whose `apiserver` and `controller-manager` are tested.
    #[arg(long, default_value = "bundle/current/bin/copepod")]
    copepod: PathBuf,
    /// Run upstream's servers instead: what fails there is not ours to answer for.
    #[arg(long)]
    upstream: bool,
    /// Seconds after which a scenario has failed.
    #[arg(long, default_value_t = 900)]
    limit: u32,
}

/// Whose servers ran, by the name of the folder with their logs.
fn runs(upstream: bool) -> PathBuf {
    folder().join(if upstream { "cmd-upstream" } else { "cmd" })
}

fn collected(upstream: bool) -> PathBuf {
    runs(upstream).with_extension("json")
}

/// Runs the scenarios; fails when one does.
pub(super) fn run(options: &Cmd) -> anyhow::Result<ExitCode> {
    for group in [upstream::Group::Bundled, upstream::Group::Oracle] {
        upstream::ensure(group)?;
    }
    let module = module()?;
    let names = choose(options, &known(&module)?)?;
    if options.not_passed && names.is_empty() {
        println!("cmd: all have passed");
        return Ok(ExitCode::SUCCESS);
    }
    let folder = runs(options.upstream);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let results = folder.join("results.tsv");
    // Left by a run that was ended from outside.
    keep(&results, options.upstream)?;
    let status = script(options, &module, &folder, &names)?.status().context("bash")?;
    ensure!(status.success(), "the scenarios did not run; see {}", folder.display());
    let now = keep(&results, options.upstream)?;
    Ok(if now.count(Verdict::Failed) > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The scenarios to name to the script; none stands for all.
fn choose(options: &Cmd, known: &[String]) -> anyhow::Result<Vec<String>> {
    for name in &options.names {
        ensure!(known.contains(name), "no scenario named {name}; there are: {}", known.join(" "));
    }
    if !options.not_passed {
        return Ok(options.names.clone());
    }
    let so_far = Results::collected_in(&collected(options.upstream))?;
    let passed = |name: &str| so_far.specs.get(name).is_some_and(|o| o.verdict == Verdict::Passed);
    Ok(known.iter().filter(|name| !passed(name)).cloned().collect())
}

fn script(
    options: &Cmd,
    module: &Path,
    results: &Path,
    names: &[String],
) -> anyhow::Result<std::process::Command> {
    let (apiserver, manager) = if options.upstream {
        let path = |name| upstream::binary(name).map(|path| path.display().to_string());
        (path("kube-apiserver")?, path("kube-controller-manager")?)
    } else {
        let copepod = workspace::root().join(&options.copepod);
        (format!("{} apiserver", copepod.display()), format!("{} controller-manager", copepod.display()))
    };
    let mut bash = copepod_sys::command("bash");
    bash.arg(workspace::root().join("tests/e2e/cmd/run.sh"))
        .args(names)
        .env("APISERVER", apiserver)
        .env("KCM", manager)
        .env("ETCD", upstream::binary("etcd")?)
        .env("KUBECTL", upstream::binary("kubectl")?)
        .env("KUBECTL_CONVERT", upstream::binary("kubectl-convert")?)
        .env("MODULE", module)
        .env("LIMIT", options.limit.to_string())
        .env("RESULTS", results);
    Ok(bash)
}

/// The unpacked module with the scripts.
fn module() -> anyhow::Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/pkg/mod"));
    let cache = std::env::var_os("GOMODCACHE").map(PathBuf::from).or_else(home).context("HOME is not set")?;
    let path = cache.join("k8s.io/kubernetes@v1.37.2");
    ensure!(
        path.join("test/cmd").is_dir(),
        "{} is missing; run: go mod download k8s.io/kubernetes@v1.37.2",
        path.display()
    );
    Ok(path)
}

/// All scenarios of upstream's driver, in its order.
fn known(module: &Path) -> anyhow::Result<Vec<String>> {
    let path = module.join("test/cmd/legacy-script.sh");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(scenarios(&text))
}

fn scenarios(script: &str) -> Vec<String> {
    let calls = script.lines().filter_map(|line| line.trim().strip_prefix("record_command run_"));
    calls.filter_map(|name| Some(short(name)).filter(|name| !name.contains('$'))).collect()
}

/// The name of a scenario without what all of them have.
fn short(name: &str) -> String {
    let name = name.strip_prefix("run_").unwrap_or(name);
    name.strip_suffix("_tests").unwrap_or(name).to_owned()
}

/// Adds what a run has noted to what is collected, and takes its notes away.
fn keep(results: &Path, upstream: bool) -> anyhow::Result<Results> {
    if !results.exists() {
        return Ok(Results::default());
    }
    let text = fs::read_to_string(results).with_context(|| results.display().to_string())?;
    let specs: BTreeMap<String, Outcome> = text.lines().map(parse).collect();
    let found = Results { specs, apiserver_peak_kib: None };
    found.collect_in(&collected(upstream))?;
    fs::remove_file(results).with_context(|| results.display().to_string())?;
    Ok(found)
}

fn parse(line: &str) -> (String, Outcome) {
    let mut parts = line.splitn(4, '\t');
    let mut part = || parts.next().unwrap_or_default();
    let (name, verdict, seconds, cause) = (part(), part(), part(), part());
    let outcome = Outcome {
        verdict: if verdict == "ok" { Verdict::Passed } else { Verdict::Failed },
        seconds: seconds.parse().unwrap_or_default(),
        // Colours of a terminal are no part of a cause.
        cause: cause.chars().filter(|c| !c.is_control() && *c != '|').collect(),
        run: "cmd".to_owned(),
    };
    (short(name), outcome)
}

/// What is collected as a part of the document; nothing when there was no run.
pub(super) fn section() -> anyhow::Result<String> {
    let ours = Results::collected_in(&collected(false))?;
    if ours.specs.is_empty() {
        return Ok(String::new());
    }
    let mut names = known(&module()?)?;
    names.push(BETWEEN.to_owned());
    Ok(render(&names, &ours, &Results::collected_in(&collected(true))?))
}

fn render(names: &[String], ours: &Results, theirs: &Results) -> String {
    let mut text = String::from(
        "\n## kubectl scenarios\n\nUpstream's `test/cmd`, by `cargo xtask conformance cmd` on an API server and a \
         controller-manager without nodes;\nthe last verdict on each scenario.\n\n\
         | servers | passed | failed | not run | seconds |\n|---|---:|---:|---:|---:|\n",
    );
    for (who, results) in [("ours", ours), ("upstream's", theirs)] {
        let known: Vec<&Outcome> = names.iter().filter_map(|name| results.specs.get(name)).collect();
        let count = |verdict| known.iter().filter(|outcome| outcome.verdict == verdict).count();
        let seconds: f64 = known.iter().map(|outcome| outcome.seconds).sum();
        text += &format!(
            "| {who} | {} | {} | {} | {seconds:.0} |\n",
            count(Verdict::Passed),
            count(Verdict::Failed),
            names.len() - known.len()
        );
    }
    let failed = |results: &Results, name: &str| {
        results.specs.get(name).filter(|o| o.verdict == Verdict::Failed).map(|o| tail(&o.cause))
    };
    let mut heading = "\n| failing | on upstream's | cause |\n|---|---|---|\n";
    for name in names {
        let (here, there) = (failed(ours, name), failed(theirs, name));
        let (verdict, cause) = match (here, there) {
            (Some(cause), None) => ("passes", cause),
            (Some(cause), Some(_)) => ("fails too", cause),
            (None, Some(cause)) => ("fails there only", cause),
            (None, None) => continue,
        };
        text += &format!("{}| {name} | {verdict} | {cause} |\n", std::mem::take(&mut heading));
    }
    text
}

/// The end of a cause: what a script says last is why it ended.
fn tail(cause: &str) -> String {
    let skip = cause.chars().count().saturating_sub(160);
    cause.chars().skip(skip).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(lines: &[&str]) -> Results {
        Results { specs: lines.iter().map(|line| parse(line)).collect(), apiserver_peak_kib: None }
    }

    #[test]
    fn verdicts_become_a_table() {
        let ours = results(&["run_pod_tests\tok\t12\t", "run_rc_tests\tfailed\t3\twhat | went wrong"]);
        let theirs = results(&["run_rc_tests\tok\t4\t", "run_web\tfailed\t1\tno network"]);
        let names = ["pod", "rc", "web", BETWEEN].map(String::from);
        let text = render(&names, &ours, &theirs);
        assert!(text.contains("| ours | 1 | 1 | 2 | 15 |\n| upstream's | 1 | 1 | 2 | 5 |\n"), "{text}");
        assert!(
            text.contains("| rc | passes | what  went wrong |\n| web | fails there only | no network |\n")
        );
    }

    #[test]
    fn the_driver_names_its_scenarios() {
        let script = "for\n record_command \"run_${pkg}_tests\"\n  record_command run_pod_tests\nrecord_command run_secrets_test\n";
        assert_eq!(scenarios(script), ["pod", "secrets_test"]);
    }
}
