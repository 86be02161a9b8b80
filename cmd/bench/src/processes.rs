//! Memory and processor time of the node's processes, while nothing happens.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::Context;

use crate::report::Report;

/// The kernel counts processor time in hundredths of a second on every architecture we build for.
const TICKS_PER_SECOND: f64 = 100.0;
const MEMORY_AIM_MIB: f64 = 110.0;
const CPU_AIM_PERCENT: f64 = 1.0;

/// What one process used.
#[derive(Clone, Debug, Default)]
struct Usage {
    name: String,
    pss_kib: f64,
    ticks: f64,
}

/// Waits `time` for the node to settle, measures for `time`, and reports each kind of process and the sum.
pub(crate) fn idle(init: i32, time: Duration, report: &mut Report) -> anyhow::Result<()> {
    eprintln!("idle: {} s to settle, {} s measured", time.as_secs(), time.as_secs());
    pause(time);
    let before = snapshot(init)?;
    pause(time);
    let after = snapshot(init)?;
    let mut kinds: BTreeMap<String, (f64, f64, usize)> = BTreeMap::new();
    for (pid, usage) in &after {
        // A process that began meanwhile used all it used within the time.
        let ticks = usage.ticks - before.get(pid).map_or(0.0, |earlier| earlier.ticks);
        let kind = kinds.entry(usage.name.clone()).or_default();
        *kind = (kind.0 + usage.pss_kib / 1024.0, kind.1 + ticks, kind.2 + 1);
    }
    let percent = |ticks: f64| 100.0 * ticks / TICKS_PER_SECOND / time.as_secs_f64();
    for (name, (pss, ticks, count)) in &kinds {
        report.add(format!("idle memory, {name} ×{count}"), *pss, "MiB");
        report.add(format!("idle processor, {name} ×{count}"), percent(*ticks), "%");
    }
    let pss = kinds.values().map(|kind| kind.0).sum();
    let ticks = kinds.values().map(|kind| kind.1).sum();
    report.add_with_aim("idle memory (PSS), all", pss, "MiB", MEMORY_AIM_MIB);
    report.add_with_aim("idle processor, all", percent(ticks), "%", CPU_AIM_PERCENT);
    Ok(())
}

/// The node's processes by their cgroup: containers have PID namespaces of their own, but no cgroups outside the node's.
fn snapshot(init: i32) -> anyhow::Result<BTreeMap<i32, Usage>> {
    let cgroup = fs::read_to_string(format!("/proc/{init}/cgroup")).context("the node's cgroup")?;
    let root = node_cgroup(&cgroup).context("the node has no cgroup of its own")?;
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(pid) = entry?.file_name().to_string_lossy().parse::<i32>() else { continue };
        let belongs =
            fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(&root));
        // Init plays the machine; it is no part of the product.
        if belongs && pid != init {
            found.extend(usage(pid).map(|usage| (pid, usage)));
        }
    }
    Ok(found)
}

/// `/copepod-<id>/` out of a `/proc/<pid>/cgroup`.
fn node_cgroup(text: &str) -> Option<String> {
    let path = text.lines().find_map(|line| line.split_once("/copepod-"))?.1;
    Some(format!("/copepod-{}/", path.split('/').next()?))
}

/// `None` for a process that is ending, which has no memory any more.
fn usage(pid: i32) -> Option<Usage> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    let pss = read("smaps_rollup")?.lines().find_map(|line| {
        line.strip_prefix("Pss:").and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok())
    })?;
    Some(Usage { name: name(&read("cmdline")?), pss_kib: pss, ticks: ticks(&read("stat")?)? })
}

/// User and system time; the program's name before them may hold spaces and parentheses.
fn ticks(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |n: usize| fields.get(n)?.parse::<f64>().ok();
    Some(field(11)? + field(12)?)
}

/// The program, and for ours the part it plays.
fn name(command_line: &str) -> String {
    let mut words = command_line.split('\0');
    let program = words.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default();
    match words.next() {
        Some(part) if program == "copepod" && !part.starts_with('-') => format!("copepod {part}"),
        _ => program.to_string(),
    }
}

#[expect(clippy::disallowed_methods, reason = "the program has nothing to do but to wait")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_after_a_name_with_parentheses() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 1 0 5 1 1";
        assert_eq!(ticks(stat), Some(200.0));
        assert_eq!(ticks("nonsense"), None);
    }

    #[test]
    fn our_programs_are_told_apart_by_their_part() {
        assert_eq!(name("/b/bin/copepod\0server\0--bundle=/b\0"), "copepod server");
        assert_eq!(name("kube-apiserver\0--x\0"), "kube-apiserver");
        assert_eq!(name("/x/copepod\0--version\0"), "copepod");
    }

    #[test]
    fn the_nodes_cgroup_is_cut_out_of_any_hierarchy() {
        let text = "4:memory:/copepod-12-0/init\n0::/copepod-12-0/init\n";
        assert_eq!(node_cgroup(text).as_deref(), Some("/copepod-12-0/"));
        assert_eq!(node_cgroup("0::/user.slice\n"), None);
    }
}
