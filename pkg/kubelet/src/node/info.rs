//! Facts of this machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;

/// What is read once at start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Processors.
    pub cpus: i64,
    /// Memory in bytes.
    pub memory: i64,
    /// `/etc/machine-id`.
    pub machine_id: String,
    /// The firmware's UUID, or the machine id.
    pub system_uuid: String,
    /// New at each boot.
    pub boot_id: String,
    /// `uname -r`.
    pub kernel: String,
    /// PRETTY_NAME of os-release.
    pub os_image: String,
    /// GOARCH's word for the architecture.
    pub architecture: String,
}

fn read(path: &str) -> String {
    // A machine without the file simply lacks the fact.
    std::fs::read_to_string(path).map(|t| t.trim().to_owned()).unwrap_or_default()
}

impl Machine {
    /// Reads the facts.
    #[must_use]
    pub fn detect() -> Self {
        let machine_id = read("/etc/machine-id");
        let uuid = read("/sys/class/dmi/id/product_uuid").to_lowercase();
        let uname = rustix::system::uname();
        Self {
            cpus: cpu_count(&read("/proc/cpuinfo")),
            memory: memory_total(&read("/proc/meminfo")),
            system_uuid: if uuid.is_empty() { machine_id.clone() } else { uuid },
            machine_id,
            boot_id: read("/proc/sys/kernel/random/boot_id"),
            kernel: uname.release().to_string_lossy().into_owned(),
            os_image: pretty_name(&read("/etc/os-release")),
            architecture: match std::env::consts::ARCH {
                "x86_64" => "amd64".to_owned(),
                "aarch64" => "arm64".to_owned(),
                other => other.to_owned(),
            },
        }
    }
}

fn cpu_count(cpuinfo: &str) -> i64 {
    let lines = cpuinfo.lines().filter(|l| l.starts_with("processor")).count();
    i64::try_from(lines).unwrap_or(1).max(1)
}

fn memory_total(meminfo: &str) -> i64 {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let kib: i64 = line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    kib * 1024
}

fn pretty_name(os_release: &str) -> String {
    let line = os_release.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="));
    line.unwrap_or("Unknown").trim_matches('"').to_owned()
}

/// Size and free bytes, inodes and free inodes of the filesystem below `path`.
///
/// # Errors
/// When it cannot be asked.
pub fn filesystem(path: &Path) -> std::io::Result<(u64, u64, u64, u64)> {
    let stat = rustix::fs::statvfs(path)?;
    Ok((stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize, stat.f_files, stat.f_favail))
}

/// Process ids in use and the most there may be.
#[must_use]
pub fn process_ids() -> Option<(u64, u64)> {
    // The fourth field is running/existing scheduling entities.
    let load = read("/proc/loadavg");
    let used = load.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()?;
    let most: u64 = read("/proc/sys/kernel/pid_max").parse().ok()?;
    let threads = read("/proc/sys/kernel/threads-max").parse().unwrap_or(most);
    Some((used, most.min(threads)))
}

/// Memory that could be given out now, bytes (`MemAvailable`).
#[must_use]
pub fn memory_available() -> i64 {
    let meminfo = read("/proc/meminfo");
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib: i64 = line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    kib * 1024
}

/// The node's address: the one that the default route uses, or the first that is not loopback.
#[must_use]
pub fn detect_address() -> Option<IpAddr> {
    // Connecting a datagram socket sends nothing; it only asks the routing table.
    let route = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect(SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 9)))?;
        socket.local_addr()
    });
    match route {
        Ok(address) if !address.ip().is_loopback() && !address.ip().is_unspecified() => Some(address.ip()),
        _ => first_local_address(&read("/proc/net/fib_trie")),
    }
}

/// The first host address of the routing trie that is not loopback.
fn first_local_address(trie: &str) -> Option<IpAddr> {
    let mut last: Option<Ipv4Addr> = None;
    for line in trie.lines() {
        let text = line.trim();
        if let Some(address) = text.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if text.contains("host LOCAL")
            && let Some(address) = last.filter(|a| !a.is_loopback())
        {
            return Some(address.into());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_parse() {
        assert_eq!(cpu_count("processor\t: 0\nx\nprocessor\t: 1\n"), 2);
        assert_eq!(memory_total("MemTotal:       1024 kB\n"), 1_048_576);
        assert_eq!(pretty_name("NAME=x\nPRETTY_NAME=\"Debian 12\"\n"), "Debian 12");
        let trie = "  |-- 127.0.0.1\n     /32 host LOCAL\n  |-- 10.0.0.5\n     /32 host LOCAL\n";
        assert_eq!(first_local_address(trie), Some("10.0.0.5".parse().unwrap()));
        assert_eq!(first_local_address("  |-- 127.0.0.1\n     /32 host LOCAL\n"), None);
    }
}
