//! What must hold before a start: every problem at once, each with its fix.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use crate::node::Node;

/// One thing that stands in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub fix: String,
    /// Whether a start is hopeless; otherwise it is a warning.
    pub fatal: bool,
}

impl Problem {
    fn fatal(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), fix: fix.into(), fatal: true }
    }

    fn warning(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), fix: fix.into(), fatal: false }
    }
}

/// Ports of the node and who needs each.
const PORTS: [(u16, &str); 8] = [
    (2379, "etcd"),
    (2380, "etcd's peers"),
    (2381, "etcd's health"),
    (10248, "the kubelet's health"),
    (10250, "the kubelet"),
    (10256, "kube-proxy's health"),
    (10257, "kube-controller-manager"),
    (10259, "kube-scheduler"),
];

/// Looks at the machine. `running` says that our own control plane may hold the ports already.
#[must_use]
pub fn check(node: &Node, running: bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    problems.extend(check_root());
    problems.extend(check_kernel());
    problems.extend(check_cgroups());
    problems.extend(check_disk(node));
    if !running {
        problems.extend(check_ports(node));
    }
    problems
}

fn check_root() -> Option<Problem> {
    let root = rustix::process::geteuid().is_root();
    (!root).then(|| Problem::fatal("not running as root", "run it with sudo, or as a service"))
}

/// Kernel features that can be seen without loading anything.
fn check_kernel() -> Vec<Problem> {
    let filesystems = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let modules = std::fs::read_to_string("/proc/modules").unwrap_or_default();
    let mut problems = Vec::new();
    if !filesystems.contains("overlay") && !loadable("overlay") {
        problems.push(Problem::fatal(
            "the kernel has no overlay file system",
            "use a kernel with CONFIG_OVERLAY_FS, or load it: modprobe overlay",
        ));
    }
    let nftables = Path::new("/proc/sys/net/netfilter").exists() || modules.contains("nf_tables");
    if !nftables && !loadable("nf_tables") {
        problems.push(Problem::fatal(
            "the kernel has no nftables",
            "use a kernel with CONFIG_NF_TABLES, or load it: modprobe nf_tables",
        ));
    }
    problems
}

/// Whether the module can be loaded when it is needed.
fn loadable(module: &str) -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let list = format!("/lib/modules/{release}/modules.dep");
    std::fs::read_to_string(list).is_ok_and(|text| text.contains(&format!("/{module}.ko")))
}

fn check_cgroups() -> Vec<Problem> {
    let root = Path::new("/sys/fs/cgroup");
    if let Ok(controllers) = std::fs::read_to_string(root.join("cgroup.controllers")) {
        return ["cpu", "memory", "pids"]
            .into_iter()
            .filter(|c| !controllers.split_whitespace().any(|have| have == *c))
            .map(missing_controller)
            .collect();
    }
    ["cpu", "memory", "pids"].into_iter().filter(|c| !root.join(c).exists()).map(missing_controller).collect()
}

/// Raspberry Pi OS ships with the memory controller switched off; the fix is one line in one file.
fn missing_controller(controller: &str) -> Problem {
    let boot =
        ["/boot/firmware/cmdline.txt", "/boot/cmdline.txt"].into_iter().find(|p| Path::new(p).exists());
    let fix = match (controller, boot) {
        ("memory", Some(file)) => {
            format!("add `cgroup_enable=memory cgroup_memory=1` to the line in {file} and reboot")
        }
        _ => format!("boot with the {controller} cgroup controller enabled (see the kernel's command line)"),
    };
    Problem::fatal(format!("the cgroup controller {controller} is not available"), fix)
}

fn check_disk(node: &Node) -> Option<Problem> {
    const NEEDED: u64 = 1 << 30;
    let mut path = node.layout.data();
    while !path.exists() && path.pop() {}
    let stat = rustix::fs::statvfs(&path).ok()?;
    let free = stat.f_bavail * stat.f_frsize;
    (free < NEEDED).then(|| {
        Problem::warning(
            format!("only {} MiB free at {}", free >> 20, path.display()),
            "free some space: images and etcd need about 1 GiB",
        )
    })
}

fn check_ports(node: &Node) -> Vec<Problem> {
    let api = [(node.config.api_port, "kube-apiserver")];
    PORTS.into_iter().chain(api).filter_map(|(port, who)| check_port(port, who)).collect()
}

fn check_port(port: u16, who: &str) -> Option<Problem> {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).err().map(|error| {
        Problem::fatal(
            format!("port {port}, which {who} needs, cannot be taken: {error}"),
            format!("see who holds it with `ss -ltnp 'sport = :{port}'` and stop that"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_named_with_its_user_and_the_fix() {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let problem = check_port(port, "etcd").unwrap();
        assert!(problem.fatal && problem.what.contains("which etcd needs"), "{problem:?}");
        assert!(problem.fix.contains(&port.to_string()));
        drop(listener);
        assert_eq!(check_port(port, "etcd"), None);
    }
}
