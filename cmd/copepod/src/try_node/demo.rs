//! `copepod try --demo`: a small web service, fetched as a neighbour pod would.

use std::process::{ExitCode, Output};

use anyhow::{Context, bail};
use copepod_testkit::{Cluster, Side};

/// The image of the demonstration; it is in the bundle.
const IMAGE: &str = "docker.io/library/busybox:1.37";
const PAGE: &str = "Hello from a copepod";

/// Deploys, fetches, prints; every step says what it runs.
pub(super) fn run(cluster: &Cluster) -> anyhow::Result<ExitCode> {
    let serve = format!("mkdir -p /www && echo '{PAGE}' > /www/index.html && httpd -f -p 8080 -h /www");
    let image = format!("--image={IMAGE}");
    show(
        cluster,
        &["create", "deployment", "web", &image, "--replicas=2", "--port=8080", "--", "sh", "-c", &serve],
    )?;
    show(cluster, &["expose", "deployment", "web", "--port=80", "--target-port=8080"])?;
    show(cluster, &["rollout", "status", "deployment/web", "--timeout=60s"])?;
    let address = cluster.run(&["get", "service", "web", "-o=jsonpath={.spec.clusterIP}"], "")?;
    let url = format!("http://{address}");
    fetch(cluster, &format!("curl {url}, on the node"), || {
        cluster.command(Side::Node, "curl").args(["-sS", "--max-time", "5", &url]).output()
    })?;
    let pod = cluster.run(&["get", "pods", "-l=app=web", "-o=jsonpath={.items[0].metadata.name}"], "")?;
    for url in ["http://web", "http://web.default.svc.cluster.local"] {
        fetch(cluster, &format!("wget {url}, in pod {pod}"), || {
            cluster.kubectl(&["exec", &pod, "--", "wget", "-q", "-O-", url]).output()
        })?;
    }
    show(cluster, &["get", "pods,services", "-A", "-o=wide"])?;
    Ok(ExitCode::SUCCESS)
}

fn show(cluster: &Cluster, words: &[&str]) -> anyhow::Result<()> {
    println!("\n$ kubectl {}", words.join(" "));
    let status = cluster.kubectl(words).status().context("run kubectl")?;
    if !status.success() {
        bail!("kubectl {} ended with {status}", words.join(" "));
    }
    Ok(())
}

/// Fetches until the page comes: rules and names follow a Service within moments, not at once.
fn fetch(cluster: &Cluster, what: &str, get: impl Fn() -> std::io::Result<Output>) -> anyhow::Result<()> {
    let page = |output: &Output| String::from_utf8_lossy(&output.stdout).trim().to_owned();
    cluster.wait_for(what, || get().is_ok_and(|output| output.status.success() && page(&output) == PAGE))?;
    println!("\n{what}: {PAGE}");
    Ok(())
}
