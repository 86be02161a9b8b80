//! The cgroup tree: `kubepods`, its QoS children and one cgroup per pod, on v1 and v2.
//!
//! Containers' own cgroups are the runtime's. Where the kernel refuses (a nested node without the
//! rights), the pod still runs: limits on containers hold all the same, and the refusal is logged.

use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;

use crate::config::{CgroupDriver, Config};
use crate::pod::PodExt;
use crate::pod::resources::{self, Qos};

/// v1 hierarchies that carry our limits; others are made by the runtime as it needs them.
const V1_CONTROLLERS: &[&str] = &["cpu", "memory", "pids"];

/// Names from the root down to the pod's cgroup, without the driver's spelling.
fn names(config: &Config, pod: &Pod) -> Vec<String> {
    let mut names = root_names(config);
    match Qos::of(pod) {
        Qos::Guaranteed => {}
        Qos::Burstable => names.push("burstable".to_owned()),
        Qos::BestEffort => names.push("besteffort".to_owned()),
    }
    names.push(format!("pod{}", pod.uid()));
    names
}

fn root_names(config: &Config) -> Vec<String> {
    let mut names: Vec<_> =
        config.cgroup_root.split('/').filter(|p| !p.is_empty()).map(str::to_owned).collect();
    names.push("kubepods".to_owned());
    names
}

/// One slice per level, each named by the whole way down, as systemd wants it.
fn slices(names: &[String]) -> Vec<String> {
    let mut way = String::new();
    names
        .iter()
        .map(|name| {
            if !way.is_empty() {
                way.push('-');
            }
            way.push_str(&name.replace('-', "_"));
            format!("{way}.slice")
        })
        .collect()
}

/// What the runtime is told as the sandbox's `cgroup_parent`; empty without a QoS tree.
#[must_use]
pub fn pod_cgroup_parent(config: &Config, pod: &Pod) -> String {
    if !config.cgroups_per_qos {
        return String::new();
    }
    let names = names(config, pod);
    match config.cgroup_driver {
        CgroupDriver::Cgroupfs => format!("/{}", names.join("/")),
        CgroupDriver::Systemd => slices(&names).pop().unwrap_or_default(),
    }
}

/// The pod's cgroup relative to a hierarchy's mount.
#[must_use]
pub fn pod_cgroup_path(config: &Config, pod: &Pod) -> PathBuf {
    relative(config, &names(config, pod))
}

fn relative(config: &Config, names: &[String]) -> PathBuf {
    match config.cgroup_driver {
        CgroupDriver::Cgroupfs => names.iter().collect(),
        CgroupDriver::Systemd => slices(names).iter().collect(),
    }
}

/// Whether the unified hierarchy is mounted.
#[must_use]
pub fn is_v2(config: &Config) -> bool {
    config.cgroup_mount.join("cgroup.controllers").exists()
}

/// CPU weight (v2) of CPU shares (v1), by the runtime's own curve.
#[must_use]
pub fn weight_of_shares(shares: i64) -> i64 {
    if shares <= 2 {
        return 1;
    }
    if shares >= 262_144 {
        return 10_000;
    }
    #[expect(clippy::cast_precision_loss, reason = "shares are below 2^18")]
    let log = (shares as f64).log2();
    let exponent = (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0;
    #[expect(clippy::cast_possible_truncation, reason = "the result is within 1..=10000")]
    let weight = 10f64.powf(exponent).ceil() as i64;
    weight
}

/// Values to write, as (file, text) per hierarchy version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// CPU shares (v1 scale); none leaves the kernel's default.
    pub shares: Option<i64>,
    /// CFS quota per 100 ms; none is unlimited.
    pub quota: Option<i64>,
    /// Memory limit in bytes; none is unlimited.
    pub memory: Option<i64>,
}

impl Limits {
    /// The limits of a pod's cgroup.
    #[must_use]
    pub fn of_pod(pod: &Pod) -> Self {
        let overhead_cpu = resources::pod_overhead(pod, "cpu").millis();
        let shares = resources::milli_to_shares(resources::pod_request(pod, "cpu").millis() + overhead_cpu);
        match Qos::of(pod) {
            Qos::BestEffort => Self { shares: Some(2), ..Self::default() },
            _ => Self {
                shares: Some(shares),
                quota: resources::pod_limit(pod, "cpu")
                    .map(|q| resources::milli_to_quota(q.millis() + overhead_cpu)),
                memory: resources::pod_limit(pod, "memory")
                    .map(|q| q.units() + resources::pod_overhead(pod, "memory").units()),
            },
        }
    }

    /// Files of v1, as (controller, file, text).
    fn v1(self) -> Vec<(&'static str, &'static str, String)> {
        let mut files = Vec::new();
        if let Some(shares) = self.shares {
            files.push(("cpu", "cpu.shares", shares.to_string()));
        }
        if let Some(quota) = self.quota {
            files.push(("cpu", "cpu.cfs_period_us", resources::QUOTA_PERIOD.to_string()));
            files.push(("cpu", "cpu.cfs_quota_us", quota.to_string()));
        }
        if let Some(memory) = self.memory {
            files.push(("memory", "memory.limit_in_bytes", memory.to_string()));
        }
        files
    }

    /// Files of v2.
    fn v2(self) -> Vec<(&'static str, String)> {
        let mut files = Vec::new();
        if let Some(shares) = self.shares {
            files.push(("cpu.weight", weight_of_shares(shares).to_string()));
        }
        if let Some(quota) = self.quota {
            files.push(("cpu.max", format!("{quota} {}", resources::QUOTA_PERIOD)));
        }
        if let Some(memory) = self.memory {
            files.push(("memory.max", memory.to_string()));
        }
        files
    }
}

/// Makes the pod's cgroup and sets its limits. With systemd the runtime makes the slices. `widen` leaves limits
/// alone that are wider than the new ones: containers that are about to shrink still need them.
///
/// # Errors
/// The first refusal of the kernel.
pub fn ensure_pod(config: &Config, pod: &Pod, widen: bool) -> io::Result<()> {
    if !config.cgroups_per_qos || config.cgroup_driver == CgroupDriver::Systemd {
        return Ok(());
    }
    let mut limits = Limits::of_pod(pod);
    if widen {
        let wider = |now: Option<i64>, new: i64| now.is_some_and(|now| now > new);
        limits.memory = limits
            .memory
            .filter(|new| !wider(memory_limit(config, pod).and_then(|n| i64::try_from(n).ok()), *new));
        limits.quota = limits.quota.filter(|new| !wider(cpu_quota(config, pod), *new));
        let share =
            pod_number(config, pod, ("cpu", "cpu.shares"), "cpu.weight").and_then(|n| i64::try_from(n).ok());
        let scaled = |shares| if is_v2(config) { weight_of_shares(shares) } else { shares };
        limits.shares = limits.shares.filter(|new| !wider(share, scaled(*new)));
    }
    ensure(config, &pod_cgroup_path(config, pod), limits)
}

/// A number in one of the pod's cgroup files; none when it is not set (`max`, negative) or not there.
fn pod_number(config: &Config, pod: &Pod, v1: (&str, &str), v2: &str) -> Option<u64> {
    let path = pod_cgroup_path(config, pod);
    let file = if is_v2(config) {
        config.cgroup_mount.join(path).join(v2)
    } else {
        config.cgroup_mount.join(v1.0).join(path).join(v1.1)
    };
    std::fs::read_to_string(file).ok()?.split_whitespace().next()?.parse().ok()
}

/// The memory in use by the pod, bytes.
#[must_use]
pub fn memory_usage(config: &Config, pod: &Pod) -> Option<u64> {
    pod_number(config, pod, ("memory", "memory.usage_in_bytes"), "memory.current")
}

/// The pod's memory limit in force, bytes.
#[must_use]
pub fn memory_limit(config: &Config, pod: &Pod) -> Option<u64> {
    // v1 says "no limit" with a number close to the largest.
    pod_number(config, pod, ("memory", "memory.limit_in_bytes"), "memory.max").filter(|n| *n < 1 << 62)
}

fn cpu_quota(config: &Config, pod: &Pod) -> Option<i64> {
    let quota = pod_number(config, pod, ("cpu", "cpu.cfs_quota_us"), "cpu.max")?;
    i64::try_from(quota).ok()
}

/// Makes the QoS tree; `burstable_millis` is the CPU that burstable pods request together.
///
/// # Errors
/// The first refusal of the kernel.
pub fn ensure_qos(config: &Config, burstable_millis: i64) -> io::Result<()> {
    if !config.cgroups_per_qos || config.cgroup_driver == CgroupDriver::Systemd {
        return Ok(());
    }
    let root = relative(config, &root_names(config));
    ensure(config, &root, Limits::default())?;
    let shares = |millis| Limits { shares: Some(resources::milli_to_shares(millis)), ..Limits::default() };
    ensure(config, &root.join("burstable"), shares(burstable_millis))?;
    ensure(config, &root.join("besteffort"), shares(0))
}

fn ensure(config: &Config, path: &Path, limits: Limits) -> io::Result<()> {
    if is_v2(config) {
        let full = config.cgroup_mount.join(path);
        if !full.exists() {
            delegate(&config.cgroup_mount, path)?;
        }
        for (file, text) in limits.v2() {
            std::fs::write(full.join(file), text)?;
        }
        return Ok(());
    }
    for controller in V1_CONTROLLERS {
        let hierarchy = config.cgroup_mount.join(controller);
        if hierarchy.exists() {
            std::fs::create_dir_all(hierarchy.join(path))?;
        }
    }
    for (controller, file, text) in limits.v1() {
        let hierarchy = config.cgroup_mount.join(controller);
        if hierarchy.exists() {
            std::fs::write(hierarchy.join(path).join(file), text)?;
        }
    }
    Ok(())
}

/// Makes `path` below the v2 `mount`, passing every controller down at each level.
fn delegate(mount: &Path, path: &Path) -> io::Result<()> {
    let mut at = mount.to_owned();
    for part in path {
        let available = std::fs::read_to_string(at.join("cgroup.controllers"))?;
        for controller in available.split_whitespace() {
            // Some controllers cannot be delegated everywhere (cpuset without CPUs, rdma): those are left out.
            if let Err(error) = std::fs::write(at.join("cgroup.subtree_control"), format!("+{controller}")) {
                tracing::debug!(controller, at = %at.display(), %error, "controller is not passed down");
            }
        }
        at.push(part);
        match std::fs::create_dir(&at) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Removes the pod's cgroup from every hierarchy; what the runtime left inside goes with it.
///
/// # Errors
/// When a process still lives in it.
pub fn remove_pod(config: &Config, pod: &Pod) -> io::Result<()> {
    if !config.cgroups_per_qos {
        return Ok(());
    }
    let path = pod_cgroup_path(config, pod);
    if is_v2(config) {
        return remove_tree(&config.cgroup_mount.join(path));
    }
    for hierarchy in std::fs::read_dir(&config.cgroup_mount)?.flatten() {
        // `cpu` and `cpuacct` are links to one directory; the real one is enough.
        if hierarchy.file_type()?.is_dir() {
            remove_tree(&hierarchy.path().join(&path))?;
        }
    }
    Ok(())
}

fn remove_tree(dir: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries.flatten() {
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    match std::fs::remove_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(resources: serde_json::Value) -> Pod {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "uid": "1-2"},
            "spec": {"containers": [{"name": "c", "resources": resources}]}
        }))
        .unwrap()
    }

    #[test]
    fn names_by_driver_and_class() {
        let mut config = Config::default();
        let best = pod(serde_json::json!({}));
        let burst = pod(serde_json::json!({"requests": {"cpu": "100m"}}));
        let guaranteed = pod(serde_json::json!({"limits": {"cpu": "1", "memory": "1Gi"}}));
        assert_eq!(pod_cgroup_parent(&config, &best), "/kubepods/besteffort/pod1-2");
        assert_eq!(pod_cgroup_parent(&config, &guaranteed), "/kubepods/pod1-2");
        config.cgroup_driver = CgroupDriver::Systemd;
        assert_eq!(pod_cgroup_parent(&config, &burst), "kubepods-burstable-pod1_2.slice");
        assert_eq!(
            pod_cgroup_path(&config, &burst),
            Path::new("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice")
        );
    }

    #[test]
    fn limits_are_written_on_both_versions() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { cgroup_mount: dir.path().to_owned(), ..Config::default() };
        let p = pod(serde_json::json!({"limits": {"cpu": "500m", "memory": "64Mi"}}));
        for controller in V1_CONTROLLERS {
            std::fs::create_dir(dir.path().join(controller)).unwrap();
        }
        ensure_pod(&config, &p, false).unwrap();
        let smaller = pod(serde_json::json!({"limits": {"cpu": "200m", "memory": "32Mi"}}));
        ensure_pod(&config, &smaller, true).unwrap();
        let read = |path: &str| std::fs::read_to_string(dir.path().join(path)).unwrap();
        assert_eq!(read("cpu/kubepods/pod1-2/cpu.shares"), "512");
        assert_eq!(read("cpu/kubepods/pod1-2/cpu.cfs_quota_us"), "50000");
        assert_eq!(read("memory/kubepods/pod1-2/memory.limit_in_bytes"), "67108864");
        assert_eq!(weight_of_shares(2), 1);
        assert_eq!(weight_of_shares(1024), 100);
        assert_eq!(weight_of_shares(262_144), 10_000);
    }
}
