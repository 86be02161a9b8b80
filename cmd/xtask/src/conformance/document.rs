//! `docs/conformance.md`, from the collected results alone.

use std::collections::BTreeMap;

use anyhow::Context;

use super::results::{Results, Verdict};
use super::specs::{self, IMPOSSIBLE, sig};
use super::{cmd, diff};
use crate::workspace;

/// How many of the slowest specs are named.
const SLOWEST: usize = 15;

/// Writes the document.
pub(super) fn write(results: &Results) -> anyhow::Result<()> {
    let path = workspace::root().join("docs/conformance.md");
    let text = render(results, &specs::all()?, &specs::upstream_seconds()?) + &cmd::section()?;
    std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    println!("{}", path.display());
    Ok(())
}

#[derive(Default)]
struct Row {
    passed: usize,
    failed: usize,
    not_run: usize,
    seconds: f64,
}

fn render(results: &Results, all: &[String], upstream: &BTreeMap<String, f64>) -> String {
    let mut text = String::from(
        "# Conformance\n\nWritten by `cargo xtask conformance document` from the JUnit files of its runs; not by hand. \
         The specs are those of Kubernetes\nv1.37's conformance suite, the seconds those of the last run of each.\n\n",
    );
    text += &table(results, all);
    if let Some(peak) = results.apiserver_peak_kib {
        text += &format!("\nThe API server's peak memory (resident): {} MiB.\n", peak / 1024);
    }
    text += &failures(results);
    text += &slowest(results, upstream);
    text
}

fn table(results: &Results, all: &[String]) -> String {
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for spec in all {
        let (row, outcome) = (rows.entry(sig(spec)).or_default(), results.specs.get(spec));
        match outcome.map(|outcome| outcome.verdict) {
            Some(Verdict::Passed) => row.passed += 1,
            Some(Verdict::Failed) => row.failed += 1,
            Some(Verdict::Skipped) | None => row.not_run += 1,
        }
        row.seconds += outcome.map(|outcome| outcome.seconds).unwrap_or_default();
    }
    let mut text = String::from("| SIG | passed | failed | not run | seconds |\n|---|---:|---:|---:|---:|\n");
    let mut total = Row::default();
    let mut line = |name: &str, row: &Row| {
        let Row { passed, failed, not_run, seconds } = row;
        text += &format!("| {name} | {passed} | {failed} | {not_run} | {seconds:.0} |\n");
    };
    for (name, row) in &rows {
        line(name, row);
        total.passed += row.passed;
        total.failed += row.failed;
        total.not_run += row.not_run;
        total.seconds += row.seconds;
    }
    line("**all**", &total);
    text
}

fn failures(results: &Results) -> String {
    let mut text = String::from("\n## Failing\n\n");
    for (name, outcome) in results.specs.iter().filter(|(_, o)| o.verdict == Verdict::Failed) {
        let known = IMPOSSIBLE.iter().find(|(spec, _)| spec == name);
        let cause = known.map_or(outcome.cause.as_str(), |(_, why)| why);
        text += &format!("- {name}: {}\n", escape(cause));
    }
    if results.count(Verdict::Failed) == 0 {
        text += "None of those that ran.\n";
    }
    text
}

fn slowest(results: &Results, upstream: &BTreeMap<String, f64>) -> String {
    let mut by_time: Vec<_> =
        results.specs.iter().filter(|(_, outcome)| outcome.verdict == Verdict::Passed).collect();
    by_time.sort_by(|(_, a), (_, b)| b.seconds.total_cmp(&a.seconds));
    let mut text = String::from("\n## Slowest\n\n| seconds | upstream | spec |\n|---:|---:|---|\n");
    for (name, outcome) in by_time.iter().take(SLOWEST) {
        let theirs = upstream.get(*name).map(|seconds| format!("{seconds:.0}")).unwrap_or_default();
        text += &format!("| {:.0} | {theirs} | {name} |\n", outcome.seconds);
    }
    let slow: Vec<_> =
        results.specs.iter().filter_map(|(name, outcome)| diff::slower(name, outcome, upstream)).collect();
    text += &format!("\nMore than twice upstream's time: {}.\n\n", slow.len());
    for line in slow {
        text += &format!("- {line}\n");
    }
    text
}

/// Causes hold types in angle brackets, which Markdown would take for HTML.
fn escape(cause: &str) -> String {
    cause.replace('<', "\\<")
}

#[cfg(test)]
mod tests {
    use super::super::results::outcome;
    use super::*;

    #[test]
    fn every_spec_is_counted_once() {
        let specs = BTreeMap::from([
            ("[sig-a] x".to_string(), outcome(Verdict::Passed, 3.0, "")),
            ("[sig-b] y".to_string(), outcome(Verdict::Failed, 1.0, "<int>: 1")),
        ]);
        let results = Results { specs, apiserver_peak_kib: Some(204_800) };
        let all = ["[sig-a] x", "[sig-b] y", "[sig-b] z"].map(String::from);
        let text = render(&results, &all, &BTreeMap::from([("[sig-a] x".to_string(), 2.0)]));
        assert!(
            text.contains(
                "| sig-a | 1 | 0 | 0 | 3 |\n| sig-b | 0 | 1 | 1 | 1 |\n| **all** | 1 | 1 | 1 | 4 |"
            )
        );
        assert!(text.contains("200 MiB") && text.contains("- [sig-b] y: \\<int>: 1\n"));
        assert!(text.contains("| 3 | 2 | [sig-a] x |"));
    }
}
