//! Upstream's components in a node, as kubeadm would start them, but as services of init instead of static pods.
//!
//! Everything is at upstream's paths inside the node: `/etc/kubernetes/pki`, `/etc/kubernetes/<who>.conf`,
//! `/var/lib/etcd`, `/var/log/<component>.log`. Every trap of running them in namespaces is answered in
//! [`flags`] and [`files`], beside the setting that answers it.

mod dns;
mod files;
mod flags;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Node, Service, TestkitError, upstream};

/// The folder in which a node's containerd looks for `<registry>/hosts.toml`, and for `_default/hosts.toml`.
pub(crate) const REGISTRIES: &str = "/etc/containerd/certs.d";

/// How long a component may take to answer, on a slow machine under load.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two questions whether it answers.
const PAUSE: Duration = Duration::from_millis(250);

/// A component that can come from upstream or from us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `kube-apiserver`.
    Apiserver,
    /// `kube-controller-manager`.
    ControllerManager,
    /// `kube-scheduler`.
    Scheduler,
    /// `kubelet`, with containerd and CNI plugins.
    Kubelet,
    /// `kube-proxy`.
    Proxy,
}

impl Part {
    /// All parts, in the order in which they start.
    pub const ALL: [Self; 5] =
        [Self::Apiserver, Self::ControllerManager, Self::Scheduler, Self::Kubelet, Self::Proxy];

    /// Upstream's name for the program.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Apiserver => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubelet => "kubelet",
            Self::Proxy => "kube-proxy",
        }
    }
}

/// Whose program plays a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Implementation {
    /// Upstream's, of the pinned version.
    Upstream,
    /// The program at this path, which answers to upstream's name as its first word (`argv[0]`) and its flags.
    Ours(PathBuf),
    /// Nobody's: the caller starts something himself, or the part is not needed.
    #[default]
    None,
}

/// Who plays which part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// In the order of [`Part::ALL`].
    who: [Implementation; 5],
}

impl Parts {
    /// Upstream's API server alone, on etcd.
    #[must_use]
    pub fn apiserver() -> Self {
        Self::default().with(Part::Apiserver, Implementation::Upstream)
    }

    /// Upstream's API server, controller manager and scheduler.
    #[must_use]
    pub fn control_plane() -> Self {
        Self::apiserver()
            .with(Part::ControllerManager, Implementation::Upstream)
            .with(Part::Scheduler, Implementation::Upstream)
    }

    /// All of upstream.
    #[must_use]
    pub fn everything() -> Self {
        Self::control_plane()
            .with(Part::Kubelet, Implementation::Upstream)
            .with(Part::Proxy, Implementation::Upstream)
    }

    /// The same with `part` played by `who`.
    #[must_use]
    pub fn with(mut self, part: Part, who: Implementation) -> Self {
        if let Some((_, place)) = Part::ALL.into_iter().zip(&mut self.who).find(|(p, _)| *p == part) {
            *place = who;
        }
        self
    }

    /// Whether anybody plays `part`.
    #[must_use]
    pub fn plays(&self, part: Part) -> bool {
        self.cast().any(|(p, who)| p == part && *who != Implementation::None)
    }

    fn cast(&self) -> impl Iterator<Item = (Part, &Implementation)> {
        Part::ALL.into_iter().zip(&self.who)
    }
}

/// Components running in a node.
#[derive(Debug)]
pub struct Oracle {
    credentials: files::Credentials,
    kubectl: PathBuf,
}

impl Oracle {
    /// Makes keys and kubeconfigs, then starts etcd and `parts` in `node`, waiting for each server.
    ///
    /// # Errors
    /// A program is not built, or a component does not become ready.
    pub fn start(node: &mut Node, parts: &Parts) -> Result<Self, TestkitError> {
        let credentials = files::prepare(node)?;
        let oracle = Self { credentials, kubectl: upstream("kubectl")? };
        node.start_service(Service::new("etcd", upstream("etcd")?).args(flags::etcd()).restart(true))?;
        for (part, who) in parts.cast().filter(|(_, who)| **who != Implementation::None) {
            if part == Part::Kubelet {
                oracle.start_runtime(node)?;
            }
            let program = program(node, part, who)?;
            let service = Service::new(part.program(), program).args(flags::of(part, node));
            node.start_service(service.env("PATH", flags::path()?).restart(true))?;
            match part {
                Part::Apiserver => oracle.wait_for_apiserver(node)?,
                // Without an API server the kubelet runs alone, and there are no names to serve.
                Part::Kubelet if parts.plays(Part::Apiserver) => oracle.start_dns(node)?,
                _ => {}
            }
        }
        Ok(oracle)
    }

    /// The file in which a node's containerd finds the mirror of all registries it knows nothing else about.
    #[must_use]
    pub fn mirror_file() -> PathBuf {
        Path::new(REGISTRIES).join("_default/hosts.toml")
    }

    /// A kubeconfig of the administrator for the API at `server`, such as `https://127.0.0.1:6443`; keys included.
    #[must_use]
    pub fn kubeconfig(&self, server: &str) -> String {
        self.credentials.kubeconfig(server)
    }

    /// Runs kubectl as administrator inside the node.
    ///
    /// # Errors
    /// It failed; the error holds what it said.
    pub fn kubectl(&self, node: &Node, args: &[&str]) -> Result<String, TestkitError> {
        let kubectl = self.kubectl.display().to_string();
        let fixed = [kubectl.as_str(), "--kubeconfig", files::ADMIN];
        let output = node.exec(&[&fixed, args].concat())?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
        Err(TestkitError::Init(format!("kubectl {}: {said}", args.join(" "))))
    }

    /// Waits until `condition` holds; there is no event for what it asks.
    ///
    /// # Errors
    /// It does not within two minutes: the error shows the end of the log of the service `name`.
    pub fn wait_for(
        &self,
        node: &Node,
        name: &str,
        condition: impl Fn(&Self) -> bool,
    ) -> Result<(), TestkitError> {
        wait(node, name, || condition(self))
    }

    fn wait_for_apiserver(&self, node: &Node) -> Result<(), TestkitError> {
        let ready =
            || self.kubectl(node, &["get", "--raw", "/readyz"]).is_ok_and(|answer| answer.trim() == "ok");
        wait(node, Part::Apiserver.program(), ready)
    }

    /// Names for pods.
    fn start_dns(&self, node: &mut Node) -> Result<(), TestkitError> {
        let objects = Path::new("/etc/coredns/objects.yaml");
        let path = node.host_path(objects);
        std::fs::write(&path, dns::objects(node)).map_err(|e| TestkitError::file("write", path, e))?;
        self.kubectl(node, &["apply", "-f", &objects.to_string_lossy()])?;
        node.start_service(dns::service()?)
    }

    fn start_runtime(&self, node: &mut Node) -> Result<(), TestkitError> {
        files::prepare_runtime(node)?;
        let containerd = Service::new("containerd", upstream("containerd")?);
        let containerd = containerd.args(["--config", files::CONTAINERD_CONFIG]).env("PATH", flags::path()?);
        node.start_service(containerd.restart(true))?;
        let socket = node.host_path(flags::CONTAINERD_SOCKET);
        wait(node, "containerd", || std::os::unix::net::UnixStream::connect(&socket).is_ok())
    }
}

fn program(node: &Node, part: Part, who: &Implementation) -> Result<PathBuf, TestkitError> {
    match who {
        Implementation::Ours(path) => {
            let link = Path::new("/usr/local/bin").join(part.program());
            let here = node.host_path(&link);
            std::os::unix::fs::symlink(path, &here).map_err(|e| TestkitError::file("link", here, e))?;
            Ok(link)
        }
        _ => upstream(part.program()),
    }
}

fn wait(node: &Node, name: &str, condition: impl Fn() -> bool) -> Result<(), TestkitError> {
    let rounds = PATIENCE.as_millis() / PAUSE.as_millis();
    for _ in 0..rounds {
        if condition() {
            return Ok(());
        }
        std::thread::park_timeout(PAUSE);
    }
    let log = std::fs::read_to_string(node.host_path(format!("/var/log/{name}.log"))).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let end = lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n");
    Err(TestkitError::NotReady { name: name.to_string(), seconds: PATIENCE.as_secs(), log: end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_recast_one_by_one() {
        let ours = Implementation::Ours("/bin/x".into());
        let parts =
            Parts::everything().with(Part::Scheduler, ours.clone()).with(Part::Proxy, Implementation::None);
        let cast: Vec<_> = parts.cast().collect();
        assert_eq!(cast[0], (Part::Apiserver, &Implementation::Upstream));
        assert_eq!(cast[2], (Part::Scheduler, &ours));
        assert_eq!(cast[4], (Part::Proxy, &Implementation::None));
    }
}
