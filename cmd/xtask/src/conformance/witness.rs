//! What the API server's process takes while specs run.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use copepod_testkit::Node;

/// The name by which the control plane's manifest starts it.
const PROGRAM: &str = "kube-apiserver";
const PAUSE: Duration = Duration::from_secs(2);

/// Looks at the process until `done`; gives its largest resident size in KiB. The kernel keeps the peak of each process,
/// so looking now and then misses only what happens right before one ends.
pub(super) fn watch(node: &Node, done: &AtomicBool) -> Option<u64> {
    let mut peak = None;
    loop {
        let last = done.load(Ordering::Acquire);
        peak = peak.max(processes(node).filter_map(high_water).max());
        if last {
            return peak;
        }
        std::thread::park_timeout(PAUSE);
    }
}

fn processes(node: &Node) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_named(*pid) && node.owns(*pid))
}

fn is_named(pid: i32) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let first = words.split(|byte| *byte == 0).next().unwrap_or_default();
    first.rsplit(|byte| *byte == b'/').next() == Some(PROGRAM.as_bytes())
}

/// The peak of a process's resident size in KiB.
fn high_water(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
