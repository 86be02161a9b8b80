//! `/stats/summary`: usage of the node, its pods and containers (`k8s.io/kubelet/pkg/apis/stats/v1alpha1`).

use std::collections::BTreeMap;

use copepod_cri::v1 as cri;
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Server;
use super::body::{Body, json as json_answer, text};

/// Usage of everything, gathered when asked for.
pub(super) async fn summary(server: &Server) -> Response<Body> {
    let runtime = server.view.runtime();
    let containers = match runtime.list_container_stats(None).await {
        Ok(containers) => containers,
        Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    };
    let sandboxes = runtime.list_pod_sandbox_stats(None).await.unwrap_or_else(|error| {
        tracing::debug!(%error, "the runtime has no sandbox statistics");
        Vec::new()
    });
    let pods = pods(&containers, &sandboxes);
    json_answer(&json!({"node": node(server), "pods": pods}))
}

fn node(server: &Server) -> Value {
    let time = copepod_sys::clock::now().to_string();
    let usage = NodeUsage::read();
    json!({
        "nodeName": server.config.node_name,
        "startTime": usage.boot.to_string(),
        "cpu": {"time": time, "usageCoreNanoSeconds": usage.cpu_nanos},
        "memory": {
            "time": time,
            "availableBytes": usage.memory_available,
            "usageBytes": usage.memory_total.saturating_sub(usage.memory_free),
            "workingSetBytes": usage.memory_total.saturating_sub(usage.memory_available),
        },
        "fs": filesystem(&server.config.root_dir, &time),
    })
}

fn filesystem(path: &std::path::Path, time: &str) -> Value {
    let Ok(stat) = rustix::fs::statvfs(path) else { return Value::Null };
    json!({
        "time": time,
        "availableBytes": stat.f_bavail * stat.f_frsize,
        "capacityBytes": stat.f_blocks * stat.f_frsize,
        "usedBytes": stat.f_blocks.saturating_sub(stat.f_bfree) * stat.f_frsize,
        "inodesFree": stat.f_ffree,
        "inodes": stat.f_files,
        "inodesUsed": stat.f_files.saturating_sub(stat.f_ffree),
    })
}

/// What the kernel tells of the whole machine.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct NodeUsage {
    pub(super) boot: Timestamp,
    pub(super) cpu_nanos: u64,
    pub(super) memory_total: u64,
    pub(super) memory_free: u64,
    pub(super) memory_available: u64,
}

impl NodeUsage {
    pub(super) fn read() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self::parse(&read("/proc/stat"), &read("/proc/meminfo"))
    }

    fn parse(stat: &str, meminfo: &str) -> Self {
        // The kernel counts processor time in hundredths of a second (USER_HZ).
        const TICK_NANOS: u64 = 10_000_000;
        let line = |key: &str| stat.lines().find_map(|l| l.strip_prefix(key)).unwrap_or_default();
        let ticks: Vec<u64> = line("cpu ").split_whitespace().filter_map(|n| n.parse().ok()).collect();
        let idle: u64 = ticks.iter().skip(3).take(2).sum();
        let busy: u64 = ticks.iter().take(8).sum::<u64>().saturating_sub(idle);
        let kib = |key: &str| {
            let line = meminfo.lines().find_map(|l| l.strip_prefix(key)).unwrap_or_default();
            line.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 1024
        };
        let boot = line("btime ").trim().parse().ok().and_then(|s| Timestamp::from_second(s).ok());
        Self {
            boot: boot.unwrap_or_default(),
            cpu_nanos: busy * TICK_NANOS,
            memory_total: kib("MemTotal:"),
            memory_free: kib("MemFree:"),
            memory_available: kib("MemAvailable:"),
        }
    }
}

fn pods(containers: &[cri::ContainerStats], sandboxes: &[cri::PodSandboxStats]) -> Vec<Value> {
    let mut pods = BTreeMap::<String, Value>::new();
    for sandbox in sandboxes {
        let Some(meta) = sandbox.attributes.as_ref().and_then(|a| a.metadata.as_ref()) else { continue };
        let pod =
            pods.entry(meta.uid.clone()).or_insert_with(|| empty_pod(&meta.name, &meta.namespace, &meta.uid));
        if let Some(linux) = &sandbox.linux {
            pod["cpu"] = cpu(linux.cpu.as_ref());
            pod["memory"] = memory(linux.memory.as_ref());
            pod["network"] = network(linux.network.as_ref());
        }
    }
    for stats in containers {
        let Some(attributes) = &stats.attributes else { continue };
        let label = |key: &str| attributes.labels.get(key).cloned().unwrap_or_default();
        let uid = label("io.kubernetes.pod.uid");
        if uid.is_empty() {
            continue;
        }
        let pod = pods.entry(uid.clone()).or_insert_with(|| {
            empty_pod(&label("io.kubernetes.pod.name"), &label("io.kubernetes.pod.namespace"), &uid)
        });
        if let Some(list) = pod["containers"].as_array_mut() {
            list.push(json!({
                "name": label("io.kubernetes.container.name"),
                "cpu": cpu(stats.cpu.as_ref()),
                "memory": memory(stats.memory.as_ref()),
                "rootfs": stats.writable_layer.as_ref().map(|fs| json!({
                    "time": time(fs.timestamp), "usedBytes": value(fs.used_bytes.as_ref()),
                })),
            }));
        }
    }
    pods.into_values().collect()
}

fn empty_pod(name: &str, namespace: &str, uid: &str) -> Value {
    json!({"podRef": {"name": name, "namespace": namespace, "uid": uid}, "containers": []})
}

fn value(number: Option<&cri::UInt64Value>) -> Option<u64> {
    number.map(|n| n.value)
}

fn time(nanos: i64) -> String {
    Timestamp::from_nanosecond(nanos.into()).unwrap_or_default().to_string()
}

fn cpu(usage: Option<&cri::CpuUsage>) -> Value {
    let Some(usage) = usage else { return Value::Null };
    json!({
        "time": time(usage.timestamp),
        "usageNanoCores": value(usage.usage_nano_cores.as_ref()),
        "usageCoreNanoSeconds": value(usage.usage_core_nano_seconds.as_ref()),
    })
}

fn memory(usage: Option<&cri::MemoryUsage>) -> Value {
    let Some(usage) = usage else { return Value::Null };
    json!({
        "time": time(usage.timestamp),
        "availableBytes": value(usage.available_bytes.as_ref()),
        "usageBytes": value(usage.usage_bytes.as_ref()),
        "workingSetBytes": value(usage.working_set_bytes.as_ref()),
        "rssBytes": value(usage.rss_bytes.as_ref()),
        "pageFaults": value(usage.page_faults.as_ref()),
        "majorPageFaults": value(usage.major_page_faults.as_ref()),
    })
}

fn network(usage: Option<&cri::NetworkUsage>) -> Value {
    let Some((usage, link)) = usage.and_then(|u| Some((u, u.default_interface.as_ref()?))) else {
        return Value::Null;
    };
    json!({
        "time": time(usage.timestamp),
        "name": link.name,
        "rxBytes": value(link.rx_bytes.as_ref()),
        "rxErrors": value(link.rx_errors.as_ref()),
        "txBytes": value(link.tx_bytes.as_ref()),
        "txErrors": value(link.tx_errors.as_ref()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables() {
        let usage = NodeUsage::parse(
            "cpu  10 0 5 100 20 0 1 0 0 0\ncpu0 1 1 1 1\nbtime 1700000000\n",
            "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\n",
        );
        assert_eq!(usage.cpu_nanos, 16 * 10_000_000);
        assert_eq!((usage.memory_total, usage.memory_available), (1_024_000, 614_400));
        assert_eq!(usage.boot.as_second(), 1_700_000_000);
    }
}
