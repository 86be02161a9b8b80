//! Upstream's kubectl scenarios (`test/cmd`) against our API server and controller-manager.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail};
use clap::Args;

use super::folder;
use crate::{upstream, workspace};

/// Which scenarios, on whose servers.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    /// Names of scenarios, such as `pod`; all where none is given.
    names: Vec<String>,
    /// The program whose `apiserver` and `controller-manager` are tested.
    #[arg(long, default_value = "bundle/current/bin/copepod")]
    copepod: PathBuf,
    /// Run upstream's servers instead: what fails there is not ours to answer for.
    #[arg(long)]
    upstream: bool,
}

/// One scenario's verdict, as the script notes it.
struct Verdict {
    name: String,
    passed: bool,
    seconds: u64,
    cause: String,
}

fn results() -> PathBuf {
    folder().join("cmd")
}

/// Runs the scenarios; fails when one does.
pub(super) fn run(options: &Cmd) -> anyhow::Result<ExitCode> {
    for group in [upstream::Group::Bundled, upstream::Group::Oracle] {
        upstream::ensure(group)?;
    }
    let results = if options.upstream { folder().join("cmd-upstream") } else { results() };
    fs::create_dir_all(&results).with_context(|| results.display().to_string())?;
    let (apiserver, manager) = if options.upstream {
        let path = |name| upstream::binary(name).map(|path| path.display().to_string());
        (path("kube-apiserver")?, path("kube-controller-manager")?)
    } else {
        let copepod = workspace::root().join(&options.copepod);
        (format!("{} apiserver", copepod.display()), format!("{} controller-manager", copepod.display()))
    };
    let status = copepod_sys::command("bash")
        .arg(workspace::root().join("tests/e2e/cmd/run.sh"))
        .args(&options.names)
        .env("APISERVER", apiserver)
        .env("KCM", manager)
        .env("ETCD", upstream::binary("etcd")?)
        .env("KUBECTL", upstream::binary("kubectl")?)
        .env("MODULE", module()?)
        .env("RESULTS", &results)
        .status()
        .context("bash")?;
    if !status.success() {
        bail!("the scenarios did not run; see {}", results.display());
    }
    let failed = read(&results)?.iter().any(|verdict| !verdict.passed);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The unpacked module with the scripts.
fn module() -> anyhow::Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/pkg/mod"));
    let cache = std::env::var_os("GOMODCACHE").map(PathBuf::from).or_else(home).context("HOME is not set")?;
    let path = cache.join("k8s.io/kubernetes@v1.37.2");
    if !path.join("test/cmd").is_dir() {
        bail!("{} is missing; run: go mod download k8s.io/kubernetes@v1.37.2", path.display());
    }
    Ok(path)
}

fn read(results: &Path) -> anyhow::Result<Vec<Verdict>> {
    let path = results.join("results.tsv");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(text.lines().map(parse).collect())
}

fn parse(line: &str) -> Verdict {
    let mut parts = line.splitn(4, '\t');
    let mut part = || parts.next().unwrap_or_default();
    let (name, verdict, seconds, cause) = (part(), part(), part(), part());
    let name = name.strip_prefix("run_").unwrap_or(name);
    Verdict {
        name: name.strip_suffix("_tests").unwrap_or(name).to_owned(),
        passed: verdict == "ok",
        seconds: seconds.parse().unwrap_or_default(),
        // Colours of a terminal are no part of a cause.
        cause: cause.chars().filter(|c| !c.is_control() && *c != '|').collect(),
    }
}

/// The last run as a part of the document; nothing when there was none.
pub(super) fn section() -> String {
    read(&results()).map(|verdicts| render(&verdicts)).unwrap_or_default()
}

fn render(verdicts: &[Verdict]) -> String {
    let passed = verdicts.iter().filter(|verdict| verdict.passed).count();
    let seconds: u64 = verdicts.iter().map(|verdict| verdict.seconds).sum();
    let mut text = format!(
        "\n## kubectl scenarios\n\nUpstream's `test/cmd`, by `cargo xtask conformance cmd`: {passed} of {} passed in {seconds} s.\n",
        verdicts.len()
    );
    let failed: Vec<&Verdict> = verdicts.iter().filter(|verdict| !verdict.passed).collect();
    if !failed.is_empty() {
        text += "\n| failed | cause |\n|---|---|\n";
    }
    for verdict in failed {
        let cause: String =
            verdict.cause.chars().rev().take(160).collect::<Vec<_>>().into_iter().rev().collect();
        text += &format!("| {} | {} |\n", verdict.name, cause.trim());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{parse, render};

    #[test]
    fn verdicts_become_a_table() {
        let verdicts =
            [parse("run_pod_tests\tok\t12\t"), parse("run_rc_tests\tfailed\t3\twhat | went wrong")];
        let text = render(&verdicts);
        assert!(text.contains("1 of 2 passed in 15 s"));
        assert!(text.contains("| rc | what  went wrong |"));
    }
}
