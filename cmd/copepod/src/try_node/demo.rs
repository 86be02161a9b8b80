//! `copepod try --demo`: a small web service, fetched as a neighbour pod would.

use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, bail};

use super::{TryNode, progress};

/// The image of the demonstration; it is in the bundle.
const IMAGE: &str = "docker.io/library/busybox:1.37";
const PAGE: &str = "Hello from a copepod";
const LIMIT: Duration = Duration::from_secs(60);

/// Deploys, fetches, prints; every step says what it runs.
pub(super) fn run(trial: &TryNode) -> anyhow::Result<ExitCode> {
    let serve = format!("mkdir -p /www && echo '{PAGE}' > /www/index.html && httpd -f -p 8080 -h /www");
    let image = format!("--image={IMAGE}");
    show(trial, &["create", "deployment", "web", &image, "--replicas=2", "--port=8080", "--", "sh", "-c", &serve])?;
    show(trial, &["expose", "deployment", "web", "--port=80", "--target-port=8080"])?;
    show(trial, &["rollout", "status", "deployment/web", "--timeout=60s"])?;
    let address = quiet(trial.kubectl(&["get", "service", "web", "-o=jsonpath={.spec.clusterIP}"]))?;
    fetch("from the node, by ClusterIP", || {
        trial.node.command(copepod_testkit::Side::Node, "curl").args(["-sS", "--max-time", "5", &format!("http://{address}")]).output()
    })?;
    let pod = quiet(trial.kubectl(&["get", "pods", "-l=app=web", "-o=jsonpath={.items[0].metadata.name}"]))?;
    for name in ["web", "web.default.svc.cluster.local"] {
        let url = format!("http://{name}");
        fetch(&format!("from pod {pod}, as {url}"), || {
            trial.kubectl(&["exec", &pod, "--", "wget", "-q", "-O-", "-T5", &url]).output()
        })?;
    }
    show(trial, &["get", "pods,services", "-A", "-o=wide"])?;
    Ok(ExitCode::SUCCESS)
}

fn show(trial: &TryNode, words: &[&str]) -> anyhow::Result<()> {
    println!("\n$ kubectl {}", words.join(" "));
    let status = trial.kubectl(words).status().context("run kubectl")?;
    if !status.success() {
        bail!("kubectl {} ended with {status}", words.join(" "));
    }
    Ok(())
}

fn quiet(mut command: Command) -> anyhow::Result<String> {
    let output = command.output().context("run kubectl")?;
    if !output.status.success() {
        bail!("kubectl: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Fetches until the page comes, or the limit: rules and names follow a Service within moments, not at once.
fn fetch(what: &str, get: impl Fn() -> std::io::Result<std::process::Output>) -> anyhow::Result<()> {
    let begun = tokio::time::Instant::now();
    loop {
        let output = get().with_context(|| format!("fetch {what}"))?;
        let page = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() && page == PAGE {
            println!("\n{what}: {page}");
            return Ok(());
        }
        if begun.elapsed() > LIMIT {
            bail!("fetch {what}: {page:?} {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        progress::pause(Duration::from_millis(200));
    }
}
