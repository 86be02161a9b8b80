//! Upstream's JUnit file, read into verdicts.

use std::path::Path;

use anyhow::Context;
use roxmltree::{Document, Node, ParsingOptions};

use super::results::{Outcome, Verdict};

/// How the file names a spec; everything else in it is set-up and reporting.
const SPEC: &str = "[It] ";
/// States of specs that the suite ended before they ended themselves.
const CUT_OFF: &[&str] = &["interrupted", "aborted"];
/// What a spec says that was cut off by the suite's time limit, in the same state as one with a limit of its own.
const OUT_OF_TIME: &str = "A suite timeout occurred";
/// The words in front of a failure's text.
const WORDS: &[&str] = &["[FAILED]", "[PANICKED]", "[TIMEDOUT]", "[INTERRUPTED]", "[ABORTED]"];
/// Where a failure's own text ends and its place begins.
const PLACE: &str = "\nIn [";
/// The longest cause kept, in letters.
const CAUSE: usize = 240;

/// What a JUnit file says.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The specs that were begun.
    pub(super) outcomes: Vec<(String, Outcome)>,
    /// Why the suite itself failed, if it did: then specs may have not been begun.
    pub(super) broken: Option<String>,
}

/// Reads the file at `path`; `run` names the run it belongs to.
pub(super) fn read(path: &Path, run: &str) -> anyhow::Result<Report> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    parse(&text, run).with_context(|| path.display().to_string())
}

fn parse(text: &str, run: &str) -> anyhow::Result<Report> {
    let document = Document::parse_with_options(text, ParsingOptions::default())?;
    let mut report = Report::default();
    for case in document.descendants().filter(|node| node.has_tag_name("testcase")) {
        let name = case.attribute("name").unwrap_or_default();
        let Some(outcome) = outcome(case, run) else { continue };
        match name.strip_prefix(SPEC) {
            Some(spec) => report.outcomes.push((spec.to_string(), outcome)),
            None if outcome.verdict == Verdict::Failed => {
                report.broken.get_or_insert_with(|| format!("{name}: {}", outcome.cause));
            }
            None => {}
        }
    }
    Ok(report)
}

/// What became of one case; `None` for one that was not chosen, or that the end of the run's time cut off.
fn outcome(case: Node<'_, '_>, run: &str) -> Option<Outcome> {
    if CUT_OFF.contains(&case.attribute("status").unwrap_or_default()) {
        return None;
    }
    let child = |name: &str| case.children().find(|node| node.has_tag_name(name));
    let problem = child("failure").or_else(|| child("error"));
    let (verdict, cause) = if let Some(problem) = problem {
        let said = problem.text().or_else(|| problem.attribute("message")).unwrap_or_default();
        let cause = one_line(said);
        if cause.starts_with(OUT_OF_TIME) {
            return None;
        }
        (Verdict::Failed, cause)
    } else if let Some(skipped) = child("skipped") {
        // A spec that was not chosen has no reason; one that gave up by itself says why.
        let reason = skipped.attribute("message").unwrap_or_default().split_once(" - ")?.1;
        (Verdict::Skipped, one_line(reason))
    } else {
        (Verdict::Passed, String::new())
    };
    let seconds = case.attribute("time").and_then(|time| time.parse().ok()).unwrap_or_default();
    Some(Outcome { verdict, seconds, cause, run: run.to_string() })
}

/// The first thing that a failure says, as one line.
fn one_line(said: &str) -> String {
    let said = said.split(PLACE).next().unwrap_or_default().trim();
    let said = WORDS.iter().find_map(|word| said.strip_prefix(word)).unwrap_or(said);
    let words: Vec<&str> = said.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(CAUSE) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="6"><testsuite name="Kubernetes e2e suite">
<testcase name="[SynchronizedBeforeSuite]" status="passed" time="0.5"></testcase>
<testcase name="[It] [sig-a] good [Conformance]" status="passed" time="1.25"></testcase>
<testcase name="[It] [sig-a] bad [Conformance]" status="failed" time="3">
 <failure type="failed">[FAILED] expected
   &lt;int&gt;: 1 to be 2
In [It] at: k8s.io/x.go:1 @ 11/30/26</failure><system-err>long</system-err></testcase>
<testcase name="[It] [sig-a] other [Conformance]" status="skipped" time="0"><skipped message="skipped"></skipped></testcase>
<testcase name="[It] [sig-a] shy [Conformance]" status="skipped" time="0.1"><skipped message="skipped - needs 2 nodes"></skipped></testcase>
<testcase name="[It] [sig-a] late [Conformance]" status="timedout" time="9"><failure type="timedout">[TIMEDOUT] A suite timeout occurred</failure></testcase>
<testcase name="[It] [sig-a] cut [Conformance]" status="interrupted" time="9"><error type="interrupted">[INTERRUPTED] x</error></testcase>
<testcase name="[It] [sig-a] mad [Conformance]" status="panicked" time="0.1"><error type="panicked">[PANICKED] nil</error></testcase>
</testsuite></testsuites>"#;

    #[test]
    fn only_specs_that_were_begun_count() {
        let report = parse(FILE, "r1").unwrap();
        let got: Vec<_> =
            report.outcomes.iter().map(|(n, o)| (n.as_str(), o.verdict, o.cause.as_str())).collect();
        assert_eq!(
            got,
            [
                ("[sig-a] good [Conformance]", Verdict::Passed, ""),
                ("[sig-a] bad [Conformance]", Verdict::Failed, "expected <int>: 1 to be 2"),
                ("[sig-a] shy [Conformance]", Verdict::Skipped, "needs 2 nodes"),
                ("[sig-a] mad [Conformance]", Verdict::Failed, "nil"),
            ]
        );
        assert_eq!(report.broken, None);
        assert!((report.outcomes[0].1.seconds - 1.25).abs() < 1e-9);
    }

    #[test]
    fn a_failed_set_up_is_told_apart() {
        let text = FILE.replace(
            r#"status="passed" time="0.5">"#,
            r#"status="failed" time="0.5"><failure>[FAILED] no node</failure>"#,
        );
        let broken = parse(&text, "r").unwrap().broken.unwrap();
        assert_eq!(broken, "[SynchronizedBeforeSuite]: no node");
    }

    #[test]
    fn causes_are_short() {
        assert_eq!(one_line(&"ä".repeat(500)).chars().count(), CAUSE + 1);
    }
}
