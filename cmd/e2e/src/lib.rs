//! What the milestones' tests share: one cluster, several named checks on it, and a report in libtest's form.
//!
//! The tests run the one release build that is in the bundle, so this crate depends on no component.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests report to a terminal")]

pub mod registry;
pub mod script;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use copepod_testkit::{Cluster, ClusterOptions, Side};
use libtest_mimic::{Arguments, Failed, Trial};

/// The result of one check.
pub type Check = Result<(), Failed>;

/// A check and its name.
pub type NamedCheck = (&'static str, fn(&Cluster) -> Check);

/// The image that is in every bundle.
pub const BUSYBOX: &str = "docker.io/library/busybox:1.37";

/// The unpacked bundle: `COPEPOD_BUNDLE`, or the one `make bundle` made in this checkout.
pub fn bundle() -> PathBuf {
    let checkout = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../bundle/current");
    let path = std::env::var_os("COPEPOD_BUNDLE").map_or_else(checkout, PathBuf::from);
    path.canonicalize().unwrap_or(path)
}

/// Starts a cluster, runs `checks` on it in order, and removes it. Without root or a bundle every check fails: these
/// are not tests to be skipped silently.
pub fn main(name: &'static str, flags: &[&str], checks: &[NamedCheck]) -> ExitCode {
    copepod_testkit::dispatch();
    let mut arguments = Arguments::from_args();
    // One node for all checks, which build on each other.
    arguments.test_threads = Some(1);
    let cluster = if arguments.list { None } else { Some(start(name, flags)) };
    let cluster = cluster.map(Arc::new);
    let trials = checks.iter().map(|(check_name, check)| {
        let (cluster, check) = (cluster.clone(), *check);
        Trial::test(format!("{name}::{check_name}"), move || match cluster.as_deref() {
            Some(Ok(cluster)) => check(cluster).map_err(|e| with_log(&e, cluster)),
            Some(Err(why)) => Err(Failed::from(why.clone())),
            None => Err(Failed::from("listing starts no node")),
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    let stopped = cluster.and_then(Arc::into_inner).map(|c| c.map(Cluster::stop));
    match stopped {
        Some(Ok(Err(error))) => {
            eprintln!("the node left something behind: {error}");
            ExitCode::FAILURE
        }
        _ => conclusion.exit_code(),
    }
}

fn start(name: &str, flags: &[&str]) -> Result<Cluster, String> {
    let mut options = ClusterOptions::new(name, bundle());
    options.flags = flags.iter().map(|f| (*f).to_owned()).collect();
    Cluster::start(&options, &mut |step| eprintln!("# {name}: {step}")).map_err(|e| e.to_string())
}

fn with_log(error: &Failed, cluster: &Cluster) -> Failed {
    let why = error.message().unwrap_or_default();
    Failed::from(format!("{why}\nthe agent's log ends with:\n{}", cluster.log_tail(15)))
}

/// Fails unless the condition holds.
pub fn ensure(holds: bool, what: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(Failed::from(what())) }
}

/// The output of a shell command on the node or beside it, whatever its exit code; both streams.
pub fn shell(cluster: &Cluster, side: Side, script: &str) -> Result<(bool, String), Failed> {
    let mut command: Command = cluster.command(side, "sh");
    let output = command.args(["-c", script]).output()?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&text).trim().to_owned()))
}

/// The same, which must succeed.
pub fn node(cluster: &Cluster, script: &str) -> Result<String, Failed> {
    match shell(cluster, Side::Node, script)? {
        (true, text) => Ok(text),
        (false, text) => Err(Failed::from(format!("`{script}` failed: {text}"))),
    }
}

/// kubectl, which must succeed.
pub fn kubectl(cluster: &Cluster, words: &str) -> Result<String, Failed> {
    let words: Vec<&str> = words.split_whitespace().collect();
    Ok(cluster.run(&words, "")?)
}

/// Applies manifests.
pub fn apply(cluster: &Cluster, yaml: &str) -> Result<String, Failed> {
    Ok(cluster.run(&["apply", "-f", "-"], yaml)?)
}

/// Waits until a kubectl query gives `want`.
pub fn wait_for(cluster: &Cluster, words: &str, want: &str) -> Check {
    let words: Vec<&str> = words.split_whitespace().collect();
    let what = format!("kubectl {} = {want:?}", words.join(" "));
    cluster.wait_for(&what, || cluster.ask(&words).as_deref() == Some(want)).map_err(|e| {
        let now = cluster.run(&words, "").unwrap_or_else(|e| e.to_string());
        Failed::from(format!("{e}\nlast answer: {now}"))
    })
}

/// A Deployment of three web servers and its Service.
pub fn web(cluster: &Cluster) -> Check {
    let serve = "mkdir -p /www && echo page > /www/index.html && httpd -f -p 8080 -h /www";
    let image = format!("--image={BUSYBOX}");
    cluster.run(
        &["create", "deployment", "web", &image, "--replicas=3", "--port=8080", "--", "sh", "-c", serve],
        "",
    )?;
    kubectl(cluster, "expose deployment web --port=80 --target-port=8080")?;
    kubectl(cluster, "rollout status deployment/web --timeout=90s")?;
    Ok(())
}

/// The Service's ClusterIP.
pub fn address(cluster: &Cluster) -> Result<String, Failed> {
    kubectl(cluster, "get service web -o jsonpath={.spec.clusterIP}")
}

/// The name of one web pod that is not being deleted.
pub fn web_pod(cluster: &Cluster) -> Result<String, Failed> {
    let names = kubectl(cluster, "get pods -l app=web --field-selector=status.phase=Running -o name")?;
    let name = names.lines().next().ok_or("no web pod runs")?;
    Ok(name.trim_start_matches("pod/").to_owned())
}

/// Fetches the page, waiting for rules to follow.
pub fn fetch(cluster: &Cluster, side: Side, url: &str) -> Check {
    let curl = format!("curl -sS --max-time 3 {url}");
    cluster.wait_for(url, || shell(cluster, side, &curl).is_ok_and(|(_, text)| text == "page"))?;
    Ok(())
}

/// A NodePort, from the neighbour's namespace.
pub fn node_port(cluster: &Cluster) -> Check {
    kubectl(cluster, "expose deployment web --name=outside --type=NodePort --port=80 --target-port=8080")?;
    let port = kubectl(cluster, "get service outside -o jsonpath={.spec.ports[0].nodePort}")?;
    fetch(cluster, Side::Lan, &format!("http://{}:{port}", cluster.node.address()))
}
