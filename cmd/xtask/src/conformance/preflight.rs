//! What a machine must have before a verdict found on it means something.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

const GIB: u64 = 1 << 30;
/// Room for images and the specs' volumes; and the share below which a kubelet begins to evict pods.
const DISK: (u64, u64) = (6 * GIB, 6);
const MEMORY: u64 = 3 * GIB;
/// Processes that want to run, per processor.
const LOAD: f64 = 12.0;
/// Where nodes have their files, unless `COPEPOD_TRY_DIR` says otherwise.
const NODES: &str = "/var/tmp";

/// Facts about this machine.
#[derive(Debug)]
struct Machine {
    disk_free: u64,
    disk_size: u64,
    memory_free: u64,
    load: f64,
    processors: f64,
    /// Files of nodes whose maker is gone.
    leftovers: Vec<PathBuf>,
}

/// Refuses a machine on which specs fail for its own reasons; with `force` it only says so.
pub(super) fn check(force: bool) -> anyhow::Result<()> {
    let problems = problems(&look()?);
    if problems.is_empty() {
        return Ok(());
    }
    let text = problems.join("; ");
    if force {
        eprintln!("this machine is not fit for a test: {text}");
        return Ok(());
    }
    bail!("this machine is not fit for a test: {text} (--force tests all the same)");
}

fn problems(machine: &Machine) -> Vec<String> {
    let mut problems = Vec::new();
    let (least, percent) = DISK;
    if machine.disk_free < least || machine.disk_free < machine.disk_size / 100 * percent {
        problems.push(format!(
            "{} GiB of {} GiB disk are free, wanted are {} GiB and {percent} %",
            machine.disk_free / GIB,
            machine.disk_size / GIB,
            least / GIB
        ));
    }
    if machine.memory_free < MEMORY {
        problems.push(format!(
            "{} MiB memory are free, wanted are {}",
            machine.memory_free >> 20,
            MEMORY >> 20
        ));
    }
    if machine.load > LOAD * machine.processors {
        problems.push(format!("the load is {} on {} processors", machine.load, machine.processors));
    }
    for path in &machine.leftovers {
        problems.push(format!("{} is left of a node whose maker is gone", path.display()));
    }
    problems
}

fn look() -> anyhow::Result<Machine> {
    let nodes = std::env::var_os("COPEPOD_TRY_DIR").map_or_else(|| PathBuf::from(NODES), PathBuf::from);
    let disk = rustix::fs::statvfs(&nodes).with_context(|| nodes.display().to_string())?;
    let memory = fs::read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    let load = fs::read_to_string("/proc/loadavg").context("/proc/loadavg")?;
    let processors = u32::try_from(std::thread::available_parallelism()?.get())?;
    Ok(Machine {
        disk_free: disk.f_bavail * disk.f_frsize,
        disk_size: disk.f_blocks * disk.f_frsize,
        memory_free: kib(&memory, "MemAvailable:").context("MemAvailable")? << 10,
        load: load.split_whitespace().next().and_then(|one| one.parse().ok()).context("load")?,
        processors: f64::from(processors),
        leftovers: leftovers(&nodes),
    })
}

fn kib(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().next()?.parse().ok()
}

/// A node's folder is named after the process that made it.
fn leftovers(nodes: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(nodes).into_iter().flatten().flatten();
    let left = entries.filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let maker = name.strip_prefix("copepod-").and_then(|rest| rest.split_once('-'));
        let maker =
            maker.and_then(|(pid, number)| Some((pid.parse::<u32>().ok()?, number.parse::<u32>().ok()?)));
        maker.is_some_and(|(pid, _)| !Path::new(&format!("/proc/{pid}")).exists())
    });
    left.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            disk_free: 50 * GIB,
            disk_size: 100 * GIB,
            memory_free: 8 * GIB,
            load: 3.0,
            processors: 2.0,
            leftovers: Vec::new(),
        }
    }

    #[test]
    fn each_want_is_named() {
        assert_eq!(problems(&machine()), Vec::<String>::new());
        assert_eq!(problems(&Machine { disk_free: 5 * GIB, ..machine() }).len(), 1);
        assert_eq!(problems(&Machine { disk_size: 1000 * GIB, ..machine() }).len(), 1, "eviction begins");
        assert_eq!(problems(&Machine { memory_free: GIB, ..machine() }).len(), 1);
        assert_eq!(problems(&Machine { load: 30.0, ..machine() }).len(), 1);
        assert_eq!(problems(&Machine { leftovers: vec![PathBuf::from("/x")], ..machine() }).len(), 1);
    }

    #[test]
    fn a_living_makers_node_is_no_leftover() {
        let dir = std::env::temp_dir().join(format!("copepod-preflight-{}", std::process::id()));
        let own = format!("copepod-{}-0", std::process::id());
        for name in [own.as_str(), "copepod-4194999-0", "copepod-notes", "other"] {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        let found = leftovers(&dir);
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(found, [dir.join("copepod-4194999-0")]);
    }
}
