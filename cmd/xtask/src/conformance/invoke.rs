//! The suite's command line.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::specs::exactly;
use super::subject::Subject;
use crate::upstream;

/// What upstream's suite writes: a prefix, and the number of the first and only file.
pub(super) const JUNIT: &str = "junit_01.xml";
/// The suite's own output.
pub(super) const OUTPUT: &str = "e2e.log";
/// With at most so many specs, each failure brings the namespace's events and pods along.
const TALKATIVE: usize = 30;

/// How to run the suite.
#[derive(Debug)]
pub(super) struct Invocation<'a> {
    /// Whole names.
    pub(super) specs: &'a [String],
    /// Processes that run specs at the same time; those marked Serial come last, alone.
    pub(super) parallel: usize,
    /// In Go's words.
    pub(super) timeout: &'a str,
    /// Further flags of the suite.
    pub(super) flags: &'a [String],
    /// Whether its output goes to this terminal instead of a file.
    pub(super) shown: bool,
}

/// Runs the suite to its end, reporting into the folder `to`. That specs failed is in the report, not in the result.
pub(super) fn invoke(subject: &Subject, invocation: &Invocation<'_>, to: &Path) -> anyhow::Result<()> {
    let mut suite = command(subject, invocation, to)?;
    if !invocation.shown {
        let path = to.join(OUTPUT);
        let output = File::create(&path).with_context(|| path.display().to_string())?;
        suite.stdout(output.try_clone()?).stderr(output);
    }
    suite.stdin(std::process::Stdio::null());
    let status = suite.status().context("start the suite")?;
    anyhow::ensure!(
        to.join(JUNIT).exists(),
        "the suite ended with {status} and no report; see {}",
        to.join(OUTPUT).display()
    );
    Ok(())
}

fn command(subject: &Subject, invocation: &Invocation<'_>, to: &Path) -> anyhow::Result<Command> {
    let suite = upstream::binary("e2e.test")?;
    let many = invocation.parallel > 1;
    let mut command = subject.command(&if many { upstream::binary("ginkgo")? } else { suite.clone() });
    // Ginkgo's own flags have a prefix where the suite's program takes them itself.
    let own = |flag: &str| if many { format!("--{flag}") } else { format!("--ginkgo.{flag}") };
    command.args([own("no-color"), own(&format!("timeout={}", invocation.timeout))]);
    if invocation.specs.len() <= TALKATIVE {
        command.arg(own("v"));
    }
    for spec in invocation.specs {
        command.arg(own(&format!("focus={}", exactly(spec))));
    }
    if many {
        command.arg(format!("--procs={}", invocation.parallel)).arg(&suite).arg("--");
    }
    let option = |name: &str, value: &Path| format!("--{name}={}", value.display());
    command
        .arg(option("kubeconfig", subject.kubeconfig()))
        .arg(option("kubectl-path", &upstream::binary("kubectl")?))
        .arg(option("report-dir", to))
        .arg("--provider=skeleton")
        .arg(format!("--dump-logs-on-failure={}", invocation.specs.len() <= TALKATIVE))
        .args(invocation.flags);
    Ok(command)
}
