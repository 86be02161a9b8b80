//! `/metrics`, `/metrics/resource`, `/metrics/cadvisor`: the series that dashboards and the metrics server read.

use copepod_cri::v1 as cri;
use copepod_telemetry::Exposition;
use http::{Response, StatusCode};

use super::Server;
use super::body::{Body, answer, full, text};
use super::stats::NodeUsage;

const NANO: f64 = 1e9;

fn exposition(text: Exposition) -> Response<Body> {
    answer(StatusCode::OK, Exposition::CONTENT_TYPE, full(text.into_string()))
}

/// The kubelet's own counters.
pub(super) fn process(server: &Server) -> Response<Body> {
    let pods = server.view.pods();
    let running = pods.iter().filter_map(|p| server.view.runtime_pod(p.metadata.uid.as_deref()?));
    let (mut active, mut containers) = (0_u32, 0_u32);
    for pod in running {
        active += u32::from(pod.is_running());
        containers +=
            u32::try_from(pod.containers.iter().filter(|c| c.is_running()).count()).unwrap_or(u32::MAX);
    }
    let mut out = Exposition::default();
    out.family("kubelet_node_name", "gauge", "The node's name. The count is always 1.");
    out.sample("kubelet_node_name", &[("node", &server.config.node_name)], 1.0);
    out.family("kubelet_running_pods", "gauge", "Pods that have a running sandbox");
    out.sample("kubelet_running_pods", &[], f64::from(active));
    out.family("kubelet_running_containers", "gauge", "Containers currently running");
    out.sample("kubelet_running_containers", &[("container_state", "running")], f64::from(containers));
    exposition(out)
}

/// One container's usage with the names it goes by.
struct Usage {
    namespace: String,
    pod: String,
    container: String,
    image: String,
    stats: cri::ContainerStats,
}

async fn usages(server: &Server) -> Result<Vec<Usage>, Response<Body>> {
    let all = server.view.runtime().list_container_stats(None).await;
    let all = all.map_err(|error| text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()))?;
    let named = all.into_iter().filter_map(|stats| {
        let attributes = stats.attributes.as_ref()?;
        let label = |key: &str| attributes.labels.get(key).cloned().unwrap_or_default();
        let usage = Usage {
            namespace: label("io.kubernetes.pod.namespace"),
            pod: label("io.kubernetes.pod.name"),
            container: label("io.kubernetes.container.name"),
            image: String::new(),
            stats,
        };
        (!usage.pod.is_empty()).then_some(usage)
    });
    Ok(named.collect())
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus' numbers are floats")]
fn float(value: u64) -> f64 {
    value as f64
}

fn cpu_seconds(stats: &cri::ContainerStats) -> f64 {
    let nanos = stats.cpu.as_ref().and_then(|c| c.usage_core_nano_seconds.as_ref()).map_or(0, |v| v.value);
    float(nanos) / NANO
}

fn working_set(stats: &cri::ContainerStats) -> f64 {
    float(stats.memory.as_ref().and_then(|m| m.working_set_bytes.as_ref()).map_or(0, |v| v.value))
}

/// One family of `/metrics/resource`: name, type, help.
type FamilyText = (&'static str, &'static str, &'static str);

const CONTAINER_CPU: FamilyText = (
    "container_cpu_usage_seconds_total",
    "counter",
    "[STABLE] Cumulative cpu time consumed by the container in core-seconds",
);
const CONTAINER_MEMORY: FamilyText =
    ("container_memory_working_set_bytes", "gauge", "[STABLE] Current working set of the container in bytes");
const CONTAINER_START: FamilyText = (
    "container_start_time_seconds",
    "gauge",
    "[STABLE] Start time of the container since unix epoch in seconds",
);
const POD_CPU: FamilyText = (
    "pod_cpu_usage_seconds_total",
    "counter",
    "[STABLE] Cumulative cpu time consumed by the pod in core-seconds",
);
const POD_MEMORY: FamilyText =
    ("pod_memory_working_set_bytes", "gauge", "[STABLE] Current working set of the pod in bytes");
const NODE_CPU: FamilyText = (
    "node_cpu_usage_seconds_total",
    "counter",
    "[STABLE] Cumulative cpu time consumed by the node in core-seconds",
);
const NODE_MEMORY: FamilyText =
    ("node_memory_working_set_bytes", "gauge", "[STABLE] Current working set of the node in bytes");
const SCRAPE_ERROR: FamilyText = (
    "resource_scrape_error",
    "gauge",
    "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise",
);

/// What the metrics server scrapes.
pub(super) async fn resource(server: &Server) -> Response<Body> {
    let usages = match usages(server).await {
        Ok(usages) => usages,
        Err(refusal) => return refusal,
    };
    let now = copepod_sys::clock::now().as_millisecond();
    let node = NodeUsage::read();
    let mut out = Exposition::default();
    let mut family = |(name, kind, help): FamilyText, samples: &[(Vec<(&str, &str)>, f64)]| {
        out.family(name, kind, help);
        for (labels, value) in samples {
            out.sample_at(name, labels, *value, now);
        }
    };
    let each = |value: fn(&cri::ContainerStats) -> f64| -> Vec<_> {
        usages.iter().map(|u| (labels(u).to_vec(), value(&u.stats))).collect()
    };
    family(CONTAINER_CPU, &each(cpu_seconds));
    family(CONTAINER_MEMORY, &each(working_set));
    let starts: Vec<_> =
        usages.iter().filter_map(|u| Some((labels(u).to_vec(), started(server, u)?))).collect();
    family(CONTAINER_START, &starts);
    let node_used = node.memory_total.saturating_sub(node.memory_available);
    family(NODE_CPU, &[(Vec::new(), float(node.cpu_nanos) / NANO)]);
    family(NODE_MEMORY, &[(Vec::new(), float(node_used))]);
    family(POD_CPU, &per_pod(&usages, cpu_seconds));
    family(POD_MEMORY, &per_pod(&usages, working_set));
    let (name, kind, help) = SCRAPE_ERROR;
    out.family(name, kind, help);
    out.sample(name, &[], 0.0);
    exposition(out)
}

/// When the container was started, seconds since 1970.
#[expect(clippy::cast_precision_loss, reason = "Prometheus' numbers are floats")]
fn started(server: &Server, usage: &Usage) -> Option<f64> {
    let pod = server.view.pod(&usage.namespace, &usage.pod)?;
    let runtime = server.view.runtime_pod(pod.metadata.uid.as_deref()?)?;
    let started = runtime.container(&usage.container)?.started_at;
    Some(started.as_millisecond() as f64 / 1000.0)
}

/// The sums of pods' containers.
fn per_pod(usages: &[Usage], value: fn(&cri::ContainerStats) -> f64) -> Vec<(Vec<(&str, &str)>, f64)> {
    let mut sums = std::collections::BTreeMap::<(&str, &str), f64>::new();
    for usage in usages {
        *sums.entry((&usage.namespace, &usage.pod)).or_default() += value(&usage.stats);
    }
    sums.into_iter().map(|((ns, pod), sum)| (vec![("namespace", ns), ("pod", pod)], sum)).collect()
}

fn labels(usage: &Usage) -> [(&str, &str); 3] {
    [("container", &usage.container), ("namespace", &usage.namespace), ("pod", &usage.pod)]
}

/// The series of cAdvisor that dashboards use most.
pub(super) async fn cadvisor(server: &Server) -> Response<Body> {
    let usages = match usages(server).await {
        Ok(usages) => usages,
        Err(refusal) => return refusal,
    };
    let memory = |u: &Usage, pick: fn(&cri::MemoryUsage) -> Option<&cri::UInt64Value>| {
        float(u.stats.memory.as_ref().and_then(pick).map_or(0, |v| v.value))
    };
    let mut out = Exposition::default();
    out.family("container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed in seconds.");
    for u in &usages {
        out.sample("container_cpu_usage_seconds_total", &named(u), cpu_seconds(&u.stats));
    }
    out.family("container_memory_working_set_bytes", "gauge", "Current working set in bytes.");
    for u in &usages {
        out.sample("container_memory_working_set_bytes", &named(u), working_set(&u.stats));
    }
    out.family(
        "container_memory_usage_bytes",
        "gauge",
        "Current memory usage in bytes, including all memory",
    );
    for u in &usages {
        out.sample("container_memory_usage_bytes", &named(u), memory(u, |m| m.usage_bytes.as_ref()));
    }
    out.family("container_memory_rss", "gauge", "Size of RSS in bytes.");
    for u in &usages {
        out.sample("container_memory_rss", &named(u), memory(u, |m| m.rss_bytes.as_ref()));
    }
    exposition(out)
}

fn named(usage: &Usage) -> [(&str, &str); 4] {
    let [container, namespace, pod] = labels(usage);
    [container, ("image", &usage.image), namespace, pod]
}
