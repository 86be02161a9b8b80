//! A whole cluster of one node: [`Node`] with the agent of a bundle in it, and kubectl from outside.
//!
//! It is what `copepod try` shows a person and what the end-to-end tests use.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use crate::{Node, Service, Side, TestkitError};

/// How long a step may take; an image import on a slow disk is the longest.
const STEP: Duration = Duration::from_secs(180);
/// How often a step that tells nobody when it is done is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// The API server's port on the node.
const API_PORT: u16 = 6443;

/// What to start.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// The node's name.
    pub name: String,
    /// The unpacked bundle.
    pub bundle: PathBuf,
    /// Further flags of `copepod server`.
    pub flags: Vec<String>,
    /// The agent's log filter.
    pub log: String,
}

impl ClusterOptions {
    /// A node called `name` of the bundle at `bundle`, with every default.
    #[must_use]
    pub fn new(name: &str, bundle: impl Into<PathBuf>) -> Self {
        Self { name: name.to_owned(), bundle: bundle.into(), flags: Vec::new(), log: "info".to_owned() }
    }
}

/// A running cluster. Dropping it removes the node.
#[derive(Debug)]
pub struct Cluster {
    /// The node itself.
    pub node: Node,
    bundle: PathBuf,
    kubeconfig: PathBuf,
}

impl Cluster {
    /// Starts a cluster and waits until its node is Ready and names resolve; `step` hears of each step that is done.
    ///
    /// # Errors
    /// What did not come up, with the end of the agent's log.
    pub fn start(options: &ClusterOptions, step: &mut dyn FnMut(&str)) -> Result<Self, TestkitError> {
        let bundle = options.bundle.clone();
        if !bundle.join("bin/containerd").exists() {
            let why = format!("{} is not a bundle: it has no bin/containerd", bundle.display());
            return Err(TestkitError::Init(why));
        }
        let mut node = Node::builder().name(&options.name).start()?;
        step("namespaces");
        let args = [
            "server".to_owned(),
            format!("--bundle={}", bundle.display()),
            format!("--node-name={}", options.name),
            format!("--node-ip={}", node.address()),
        ];
        let service = Service::new("copepod", bundle.join("bin/copepod"))
            .args(args.into_iter().chain(options.flags.iter().cloned()))
            .env("COPEPOD_LOG", &options.log)
            .restart(true);
        node.start_service(service)?;
        let mut cluster = Self { node, bundle, kubeconfig: PathBuf::new() };
        cluster.connect(step)?;
        cluster.wait_ready(step)?;
        Ok(cluster)
    }

    /// Waits for the credentials and makes the API server reachable.
    fn connect(&mut self, step: &mut dyn FnMut(&str)) -> Result<(), TestkitError> {
        let admin = self.node.layout().kubeconfig("admin");
        self.wait_for("certificates", || self.node.host_path(&admin).exists())?;
        step("certificates");
        let address = self.node.forward(API_PORT)?;
        let path = self.node.host_path(&admin);
        let read = |source| TestkitError::File { action: "read", path: path.clone(), source };
        let text = std::fs::read_to_string(&path).map_err(read)?;
        let text = text.replace(&format!("https://127.0.0.1:{API_PORT}"), &format!("https://{address}"));
        self.kubeconfig = write_kubeconfig(self.node.name(), &text)?;
        Ok(())
    }

    fn wait_ready(&self, step: &mut dyn FnMut(&str)) -> Result<(), TestkitError> {
        self.wait_for("API server", || self.ask(&["get", "--raw=/readyz"]).is_some())?;
        step("API server");
        let ready = "-o=jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}";
        self.wait_for("node Ready", || self.ask(&["get", "nodes", ready]).as_deref() == Some("True"))?;
        step("node Ready");
        let replicas = ["get", "-n=kube-system", "deployment/coredns", "-o=jsonpath={.status.readyReplicas}"];
        self.wait_for("cluster DNS", || self.ask(&replicas).as_deref() == Some("1"))?;
        step("cluster DNS");
        Ok(())
    }

    /// Waits until `done`, at most some minutes.
    ///
    /// # Errors
    /// The name of what did not come, with the end of the agent's log.
    pub fn wait_for(&self, name: &str, done: impl Fn() -> bool) -> Result<(), TestkitError> {
        let deadline = Instant::now() + STEP;
        while !done() {
            if Instant::now() >= deadline {
                return Err(TestkitError::NotReady {
                    name: name.to_owned(),
                    seconds: STEP.as_secs(),
                    log: self.log_tail(30),
                });
            }
            pause(LOOK);
        }
        Ok(())
    }

    /// The last lines of the agent's log.
    #[must_use]
    pub fn log_tail(&self, lines: usize) -> String {
        let log = std::fs::read_to_string(self.node.host_path("/var/log/copepod.log")).unwrap_or_default();
        let all: Vec<&str> = log.lines().collect();
        all.iter().skip(all.len().saturating_sub(lines)).copied().collect::<Vec<_>>().join("\n")
    }

    /// The administrator's kubeconfig, for use from outside the node.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The bundle the node runs from.
    #[must_use]
    pub fn bundle(&self) -> &Path {
        &self.bundle
    }

    /// kubectl against the cluster.
    #[must_use]
    pub fn kubectl(&self, words: &[&str]) -> Command {
        let mut command = copepod_sys::command(self.bundle.join("bin/kubectl"));
        command.env("KUBECONFIG", &self.kubeconfig).args(words);
        command
    }

    /// kubectl's output, trimmed; `None` when it failed.
    #[must_use]
    pub fn ask(&self, words: &[&str]) -> Option<String> {
        self.run(words, "").ok()
    }

    /// Runs kubectl with `input` on its standard input; gives its output, trimmed.
    ///
    /// # Errors
    /// What kubectl said when it failed.
    pub fn run(&self, words: &[&str], input: &str) -> Result<String, TestkitError> {
        let start = |source| TestkitError::Start { program: "kubectl".to_owned(), source };
        let mut command = self.kubectl(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(start)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A kubectl that does not read its input closes it; its exit code says the rest.
            drop(stdin.write_all(input.as_bytes()));
        }
        let output = child.wait_with_output().map_err(start)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        Err(TestkitError::Init(format!(
            "kubectl {}: {}{}",
            words.join(" "),
            text(&output.stdout),
            text(&output.stderr)
        )))
    }

    /// A command on the node or beside it, with the bundle's programs and the administrator's kubeconfig at hand.
    #[must_use]
    pub fn command(&self, side: Side, program: &str) -> Command {
        let mut command = self.node.command(side, program);
        let bin = self.bundle.join("bin");
        command
            .env(
                "PATH",
                format!("{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", bin.display()),
            )
            .env("KUBECONFIG", self.node.layout().kubeconfig("admin"));
        command
    }

    /// Ends the cluster and waits until every trace of it is gone.
    ///
    /// # Errors
    /// What could not be removed.
    pub fn stop(mut self) -> Result<(), TestkitError> {
        let kubeconfig = std::mem::take(&mut self.kubeconfig);
        self.node.stop()?;
        std::fs::remove_file(&kubeconfig).map_err(|source| TestkitError::File {
            action: "remove",
            path: kubeconfig,
            source,
        })
    }
}

fn write_kubeconfig(name: &str, text: &str) -> Result<PathBuf, TestkitError> {
    let path = std::env::temp_dir().join(format!("copepod-{name}-{}.kubeconfig", std::process::id()));
    let fail = |source| TestkitError::File { action: "write", path: path.clone(), source };
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&path).map_err(fail)?;
    file.write_all(text.as_bytes()).map_err(fail)?;
    Ok(path)
}

#[expect(
    clippy::disallowed_methods,
    reason = "callers are tests and a command at a terminal, without an event loop"
)]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
