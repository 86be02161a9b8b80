//! Our own containerd: its configuration, and the one daemon that outlives the agent.
//!
//! It runs detached, so that restarting the agent leaves every pod alone. A later agent adopts it by pid file and
//! socket; there is never a second one on the same state.

use std::path::Path;
use std::time::Duration;

use rustix::process::Pid;
use tokio::time::{Instant, sleep};

use crate::error::{BootstrapError, file};
use crate::manifests::PAUSE_IMAGE;
use crate::node::Node;
use crate::write::{make_dir, write_if_changed};

/// How long a start may take: a first one on a slow card writes a fresh database.
const START_SECONDS: u64 = 60;

/// Facts about the machine that the configuration depends on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Machine {
    /// Whether this process may lower `oom_score_adj` (CAP_SYS_RESOURCE).
    pub may_adjust_oom: bool,
    /// Whether AppArmor is there to confine containers.
    pub apparmor: bool,
    /// Whether cgroups are made by systemd.
    pub systemd_cgroup: bool,
}

impl Machine {
    /// Looks at the machine.
    #[must_use]
    pub fn detect() -> Self {
        const CAP_SYS_RESOURCE: u32 = 24;
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let effective = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
            .unwrap_or(0);
        Self {
            may_adjust_oom: effective >> CAP_SYS_RESOURCE & 1 == 1,
            apparmor: Path::new("/sys/kernel/security/apparmor/profiles").exists()
                && Path::new("/sbin/apparmor_parser").exists(),
            systemd_cgroup: false,
        }
    }
}

/// containerd's configuration (version 3, for 2.x).
#[must_use]
pub fn render_config(node: &Node, machine: Machine) -> String {
    let layout = &node.layout;
    let mut text = String::new();
    let mut line = |s: &str| {
        text.push_str(s);
        text.push('\n');
    };
    line(
        "# Written by copepod at every start. Registry mirrors go into /etc/copepod/registry/<host>/hosts.toml.",
    );
    line("version = 3");
    line(&format!("root = {:?}", layout.containerd_root()));
    line(&format!("state = {:?}", layout.containerd_state()));
    line("disabled_plugins = [");
    for plugin in UNUSED_PLUGINS {
        line(&format!("  {plugin:?},"));
    }
    line("]");
    line("[grpc]");
    line(&format!("  address = {:?}", layout.containerd_socket()));
    line("[ttrpc]");
    line(&format!("  address = {:?}", layout.containerd_state().join("containerd.sock.ttrpc")));
    line("[plugins.'io.containerd.cri.v1.runtime']");
    line("  enable_unprivileged_ports = true");
    line("  enable_unprivileged_icmp = true");
    line(&format!("  restrict_oom_score_adj = {}", !machine.may_adjust_oom));
    line(&format!("  disable_apparmor = {}", !machine.apparmor));
    line("  [plugins.'io.containerd.cri.v1.runtime'.cni]");
    line(&format!("    bin_dirs = [{:?}]", layout.cni_bin()));
    line(&format!("    conf_dir = {:?}", layout.cni_config()));
    line("  [plugins.'io.containerd.cri.v1.runtime'.containerd]");
    line("    default_runtime_name = 'runc'");
    line("    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]");
    line("      runtime_type = 'io.containerd.runc.v2'");
    line(&format!("      runtime_path = {:?}", node.program("containerd-shim-runc-v2")));
    line("      pod_annotations = ['io.containerd.runc.v2.group']");
    line("      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]");
    line(&format!("        BinaryName = {:?}", node.program("runc")));
    line(&format!("        SystemdCgroup = {}", machine.systemd_cgroup));
    line("[plugins.'io.containerd.cri.v1.images']");
    line("  snapshotter = 'overlayfs'");
    line("  [plugins.'io.containerd.cri.v1.images'.pinned_images]");
    line(&format!("    sandbox = {PAUSE_IMAGE:?}"));
    line("  [plugins.'io.containerd.cri.v1.images'.registry]");
    line(&format!("    config_path = {:?}", layout.registry_config()));
    text
}

/// What an idle node never uses; each is memory and start-up time.
const UNUSED_PLUGINS: [&str; 6] = [
    "io.containerd.nri.v1.nri",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.snapshotter.v1.erofs",
    "io.containerd.tracing.processor.v1.otlp",
];

/// A running containerd: the daemon and how it came to be ours.
#[derive(Debug)]
pub struct Containerd {
    pid: Pid,
    /// Whether it was running already.
    pub adopted: bool,
}

impl Containerd {
    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Waits, without polling, until the daemon is gone.
    ///
    /// # Errors
    /// The kernel cannot watch processes.
    pub async fn gone(&self) -> Result<(), copepod_sys::SysError> {
        copepod_sys::process::exited(self.pid()).await
    }
}

/// Adopts the running daemon or starts one; returns when its socket answers.
///
/// # Errors
/// When the bundle lacks it, or it does not answer in time.
pub async fn ensure_running(node: &Node, machine: Machine) -> Result<Containerd, BootstrapError> {
    let layout = &node.layout;
    for dir in [layout.containerd_root(), layout.containerd_state(), layout.logs(), layout.registry_config()]
    {
        make_dir(&dir)?;
    }
    write_if_changed(&layout.containerd_config(), &render_config(node, machine), 0o644)?;
    if let Some(pid) = running(node) {
        wait_for_socket(node, Duration::from_secs(START_SECONDS)).await?;
        return Ok(Containerd { pid, adopted: true });
    }
    let pid = start(node)?;
    wait_for_socket(node, Duration::from_secs(START_SECONDS)).await?;
    Ok(Containerd { pid, adopted: false })
}

/// The daemon of the pid file, when that process is alive and is ours (its command line names our configuration).
fn running(node: &Node) -> Option<Pid> {
    let text = std::fs::read_to_string(node.layout.containerd_pid()).ok()?;
    let raw: i32 = text.trim().parse().ok()?;
    let command = std::fs::read(format!("/proc/{raw}/cmdline")).ok()?;
    let config = node.layout.containerd_config();
    let ours = command.split(|b| *b == 0).any(|arg| arg == config.as_os_str().as_encoded_bytes());
    if ours { Pid::from_raw(raw) } else { None }
}

fn start(node: &Node) -> Result<Pid, BootstrapError> {
    let layout = &node.layout;
    let program = node.program("containerd");
    if !program.exists() {
        return Err(BootstrapError::MissingProgram { program, bundle: node.bundle.clone() });
    }
    let log_path = layout.logs().join("containerd.log");
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&log_path)
        .map_err(file("open", &log_path))?;
    let errors = log.try_clone().map_err(file("open", &log_path))?;
    let mut command = copepod_sys::command(&program);
    command
        .arg("--config")
        .arg(layout.containerd_config())
        .arg("--log-level=warn")
        .env("PATH", search_path(node))
        .env("GOGC", "50")
        .stdin(std::process::Stdio::null())
        .stdout(log)
        .stderr(errors);
    // A process group of its own: a Ctrl-C or a service manager's signal to the agent does not reach it.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let child = command.spawn().map_err(file("start", &program))?;
    let raw = i32::try_from(child.id()).unwrap_or(0);
    write_if_changed(&layout.containerd_pid(), &raw.to_string(), 0o644)?;
    Pid::from_raw(raw).ok_or(BootstrapError::MissingProgram { program, bundle: node.bundle.clone() })
}

/// The bundle's programs first, then the system's (mount helpers, iptables).
fn search_path(node: &Node) -> String {
    format!(
        "{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        node.bundle.join("bin").display()
    )
}

/// containerd creates its socket late in its start and tells nobody, hence the short look now and then, at start only.
async fn wait_for_socket(node: &Node, limit: Duration) -> Result<(), BootstrapError> {
    let socket = node.layout.containerd_socket();
    let deadline = Instant::now() + limit;
    while tokio::net::UnixStream::connect(&socket).await.is_err() {
        if Instant::now() >= deadline {
            return Err(BootstrapError::Containerd {
                socket,
                seconds: limit.as_secs(),
                log: node.layout.logs().join("containerd.log"),
            });
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use copepod_config::{Layout, NodeConfig};

    #[test]
    fn the_configuration_names_our_own_paths() {
        let config = NodeConfig { node_ips: vec!["192.168.9.2".parse().unwrap()], ..NodeConfig::default() };
        let node = Node::resolve(Layout::new("/n"), config, Path::new("/b")).unwrap();
        let text = render_config(&node, Machine { may_adjust_oom: false, ..Machine::default() });
        for want in [
            "address = \"/n/run/copepod/containerd/containerd.sock\"",
            "restrict_oom_score_adj = true",
            "BinaryName = \"/b/bin/runc\"",
            "sandbox = \"registry.k8s.io/pause:3.10.2\"",
        ] {
            assert!(text.contains(want), "{want} in\n{text}");
        }
    }
}
