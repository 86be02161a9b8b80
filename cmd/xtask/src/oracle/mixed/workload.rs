//! The work a mixed node does: rounds of what users do with a Deployment, a Job and a Service.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use copepod_testkit::Side;
use tokio::time::Instant;

use super::super::node::OracleNode;
use crate::workspace;

/// How long a step may take, on a machine that has other work as well.
const PATIENCE: Duration = Duration::from_secs(90);
/// Between two questions of a step; there is no event for an answer over a Service.
const PAUSE: Duration = Duration::from_millis(200);
/// A round begins so long after the one before it; what is left of the time the node is idle.
const ROUND: Duration = Duration::from_secs(30);
/// Requests that must all be answered while nothing changes.
const REQUESTS: usize = 20;

/// A step: its name and what it does.
type Step = (&'static str, fn(&Workload<'_>) -> anyhow::Result<()>);

/// What each round does, in this order.
const STEPS: [Step; 7] = [
    ("a Deployment grows and its Service follows", |on| on.grow()),
    ("it shrinks and its Service follows", |on| on.shrink()),
    ("a Job completes", |on| on.job()),
    ("a rollout replaces the pods", |on| on.roll_out()),
    ("a deleted pod is replaced", |on| on.replace()),
    ("a name resolves in a pod, over exec", |on| on.name()),
    ("a node port answers from outside", |on| on.node_port()),
];

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) rounds: usize,
    pub(super) steps: usize,
    /// One line each.
    pub(super) failures: Vec<String>,
}

/// Works on `on` until `time` is over; an error only when nothing could begin.
pub(super) fn run(on: &OracleNode, time: Duration) -> anyhow::Result<Outcome> {
    let workload = Workload { on, manifests: workspace::root().join("testdata/mixed") };
    let mut outcome = Outcome::default();
    let begun = Instant::now();
    workload.set_up().context("set up the workload")?;
    while outcome.rounds == 0 || begun.elapsed() < time {
        let round = Instant::now();
        outcome.rounds += 1;
        for (name, step) in STEPS {
            outcome.steps += 1;
            if let Err(error) = step(&workload) {
                outcome.failures.push(format!("round {}: {name}: {error:#}", outcome.rounds));
            }
        }
        let next = ROUND.min(time.saturating_sub(begun.elapsed()));
        std::thread::park_timeout(next.saturating_sub(round.elapsed()));
    }
    outcome.steps += 1;
    if let Err(error) = workload.clear() {
        outcome.failures.push(format!("the namespace goes away with all that is in it: {error:#}"));
    }
    Ok(outcome)
}

struct Workload<'a> {
    on: &'a OracleNode,
    manifests: PathBuf,
}

impl Workload<'_> {
    fn kubectl(&self, words: &str) -> anyhow::Result<String> {
        let words: Vec<&str> = ["-n", "mixed"].into_iter().chain(words.split_whitespace()).collect();
        Ok(self.on.oracle.kubectl(&self.on.node, &words)?.trim().to_owned())
    }

    fn apply(&self, file: &str) -> anyhow::Result<()> {
        self.kubectl(&format!("apply -f {}", self.manifests.join(file).display())).map(drop)
    }

    fn set_up(&self) -> anyhow::Result<()> {
        self.eventually("the node is Ready", || {
            self.kubectl("wait node --all --for=condition=Ready --timeout=5s").map(drop)
        })?;
        self.apply("objects.yaml")?;
        self.kubectl("rollout status deployment/web --timeout=120s").map(drop)
    }

    fn clear(&self) -> anyhow::Result<()> {
        self.kubectl("delete namespace mixed --timeout=90s").map(drop)
    }

    fn scale(&self, replicas: usize) -> anyhow::Result<()> {
        self.kubectl(&format!("scale deployment/web --replicas={replicas}"))?;
        self.kubectl("rollout status deployment/web --timeout=90s")?;
        self.eventually("as many pods as replicas", || {
            let pods = self.pods()?.len();
            ensure!(pods == replicas, "{pods} pods, wanted are {replicas}");
            Ok(())
        })
    }

    /// The names of the Deployment's pods.
    fn pods(&self) -> anyhow::Result<BTreeSet<String>> {
        let names = self.kubectl("get pods -l app=web -o name")?;
        Ok(names.lines().map(|name| name.trim_start_matches("pod/").to_owned()).collect())
    }

    /// One answer of the Service, which is a pod's name.
    fn fetch(&self, side: Side, url: &str) -> anyhow::Result<String> {
        let mut command = self.on.node.command(side, "curl");
        let output = command.args(["-sS", "--max-time", "3", url]).output().context("curl")?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        ensure!(output.status.success(), "{url}: {said}");
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn url(&self) -> anyhow::Result<String> {
        Ok(format!("http://{}", self.kubectl("get service web -o jsonpath={.spec.clusterIP}")?))
    }

    /// The Service leads to every pod of the Deployment, and to no other.
    fn service_follows(&self) -> anyhow::Result<()> {
        let url = self.url()?;
        let pods = self.pods()?;
        self.eventually("answers from exactly the pods there are", || {
            let mut seen = BTreeSet::new();
            for _ in 0..REQUESTS {
                seen.insert(self.fetch(Side::Node, &url)?);
            }
            ensure!(seen == pods, "answers from {seen:?}, wanted are {pods:?}");
            Ok(())
        })?;
        // From here nothing changes, so nothing may be lost.
        (0..REQUESTS).try_for_each(|_| self.fetch(Side::Node, &url).map(drop))
    }

    fn grow(&self) -> anyhow::Result<()> {
        self.scale(4)?;
        self.service_follows()
    }

    fn shrink(&self) -> anyhow::Result<()> {
        self.scale(2)?;
        self.service_follows()
    }

    fn job(&self) -> anyhow::Result<()> {
        self.apply("job.yaml")?;
        self.kubectl("wait job/sum --for=condition=Complete --timeout=90s")?;
        let logs = self.kubectl("logs -l job-name=sum --tail=-1")?;
        self.kubectl("delete job sum --timeout=60s")?;
        ensure!(logs.lines().collect::<Vec<_>>() == ["sum 42"; 3], "the pods wrote {logs:?}");
        Ok(())
    }

    fn roll_out(&self) -> anyhow::Result<()> {
        let before = self.pods()?;
        self.kubectl("rollout restart deployment/web")?;
        self.kubectl("rollout status deployment/web --timeout=90s")?;
        self.eventually("the old pods are gone", || {
            let pods = self.pods()?;
            ensure!(pods.is_disjoint(&before) && pods.len() == 2, "pods {pods:?}, before {before:?}");
            Ok(())
        })?;
        self.service_follows()
    }

    fn replace(&self) -> anyhow::Result<()> {
        let victim = self.pods()?.pop_first().context("no pod")?;
        self.kubectl(&format!("delete pod {victim} --timeout=60s"))?;
        self.kubectl("rollout status deployment/web --timeout=90s")?;
        self.service_follows()
    }

    fn name(&self) -> anyhow::Result<()> {
        // A static busybox has no other way to names than this one.
        let answer = self.kubectl("exec deployment/web -- nslookup -type=a web.mixed.svc.cluster.local")?;
        let address = self.kubectl("get service web -o jsonpath={.spec.clusterIP}")?;
        ensure!(answer.contains(&address), "the name is {answer:?}, wanted is {address}");
        let fetch = format!("exec deployment/web -- wget -q -O - http://{address}/");
        let answer = self.kubectl(&fetch)?;
        ensure!(self.pods()?.contains(&answer), "an answer from {answer:?}");
        Ok(())
    }

    fn node_port(&self) -> anyhow::Result<()> {
        let answer = self.fetch(Side::Lan, &format!("http://{}:30080", self.on.node.address()))?;
        ensure!(self.pods()?.contains(&answer), "an answer from {answer:?}");
        Ok(())
    }

    /// Tries until it holds, at most [`PATIENCE`].
    fn eventually(&self, what: &str, holds: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match holds() {
                Ok(()) => return Ok(()),
                Err(why) if Instant::now() >= deadline => bail!("not in time: {what}: {why:#}"),
                Err(_) => std::thread::park_timeout(PAUSE),
            }
        }
    }
}

/// Copies what the components of `on` wrote into the folder `to`; the paths of the copies.
pub(super) fn save_logs(on: &OracleNode, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    let logs = on.node.host_path("/var/log");
    for entry in std::fs::read_dir(&logs).with_context(|| logs.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let copy = to.join(path.file_name().unwrap_or_default());
            std::fs::copy(&path, &copy).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}
