//! QoS classes, pod-level sums and the cgroup numbers made from them.

use copepod_api::Quantity;
use copepod_cri::v1 as cri;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::{PodExt, is_sidecar, quantity};

/// Length of a CFS period, microseconds.
pub const QUOTA_PERIOD: i64 = 100_000;
/// Smallest CFS quota, microseconds.
const MIN_QUOTA_PERIOD: i64 = 1_000;
/// Fewest CPU shares.
const MIN_SHARES: i64 = 2;
/// Most CPU shares.
const MAX_SHARES: i64 = 262_144;

/// A pod's quality-of-service class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Qos {
    /// Every container limits CPU and memory to what it requests.
    Guaranteed,
    /// Some requests or limits.
    Burstable,
    /// None at all.
    BestEffort,
}

impl Qos {
    /// The word in status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }

    /// The class of `pod`, from its status when the API already fixed it.
    #[must_use]
    pub fn of(pod: &Pod) -> Self {
        match pod.status.as_ref().and_then(|s| s.qos_class.as_deref()) {
            Some("Guaranteed") => Self::Guaranteed,
            Some("Burstable") => Self::Burstable,
            Some("BestEffort") => Self::BestEffort,
            _ => Self::compute(pod),
        }
    }

    /// The class by the rules.
    #[must_use]
    pub fn compute(pod: &Pod) -> Self {
        let spec = pod.spec();
        if let Some(resources) = &spec.resources {
            return class_of(&[(resources.requests.as_ref(), resources.limits.as_ref())]);
        }
        let all: Vec<_> = spec
            .containers
            .iter()
            .chain(pod.init_containers())
            .map(|c| {
                let r = c.resources.as_ref();
                (r.and_then(|r| r.requests.as_ref()), r.and_then(|r| r.limits.as_ref()))
            })
            .collect();
        class_of(&all)
    }
}

type Resources<'a> =
    Option<&'a std::collections::BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>;

fn class_of(all: &[(Resources<'_>, Resources<'_>)]) -> Qos {
    let set = |map, name| quantity(map, name).filter(|q| !q.is_zero());
    let mut any = false;
    let mut guaranteed = true;
    for (requests, limits) in all {
        for name in ["cpu", "memory"] {
            let request = set(*requests, name);
            let limit = set(*limits, name);
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => Qos::BestEffort,
        (true, true) => Qos::Guaranteed,
        (true, false) => Qos::Burstable,
    }
}

/// CPU shares for `millis` thousandths of a core.
#[must_use]
pub fn milli_to_shares(millis: i64) -> i64 {
    if millis == 0 { MIN_SHARES } else { (millis * 1024 / 1000).clamp(MIN_SHARES, MAX_SHARES) }
}

/// CFS quota per period for `millis`; 0 is no limit.
#[must_use]
pub fn milli_to_quota(millis: i64) -> i64 {
    if millis == 0 { 0 } else { (millis * QUOTA_PERIOD / 1000).max(MIN_QUOTA_PERIOD) }
}

fn request(container: &Container, name: &str) -> Option<Quantity> {
    let resources = container.resources.as_ref()?;
    quantity(resources.requests.as_ref(), name).or_else(|| quantity(resources.limits.as_ref(), name))
}

fn limit(container: &Container, name: &str) -> Option<Quantity> {
    quantity(container.resources.as_ref()?.limits.as_ref(), name)
}

/// The larger of what all main containers and sidecars take together and what the init phase
/// needs at its peak, by `of`.
fn pod_sum(pod: &Pod, of: impl Fn(&Container) -> Quantity) -> Quantity {
    let mut sidecars = Quantity::from_units(0);
    let mut peak = Quantity::from_units(0);
    for container in pod.init_containers() {
        let value = of(container);
        if is_sidecar(container) {
            sidecars = sidecars + value;
            peak = peak.max(sidecars);
        } else {
            peak = peak.max(sidecars + value);
        }
    }
    let main = pod.spec().containers.iter().map(&of).sum::<Quantity>() + sidecars;
    main.max(peak)
}

/// What the pod requests of `name`, overhead excluded; pod-level requests win.
#[must_use]
pub fn pod_request(pod: &Pod, name: &str) -> Quantity {
    let level = pod.spec().resources.as_ref();
    quantity(level.and_then(|r| r.requests.as_ref()), name)
        .unwrap_or_else(|| pod_sum(pod, |c| request(c, name).unwrap_or_default()))
}

/// The pod's limit of `name`; `None` when some container has none.
#[must_use]
pub fn pod_limit(pod: &Pod, name: &str) -> Option<Quantity> {
    if let Some(level) = quantity(pod.spec().resources.as_ref().and_then(|r| r.limits.as_ref()), name) {
        return Some(level);
    }
    let all = pod.spec().containers.iter().chain(pod.init_containers());
    let everywhere = all.clone().all(|c| limit(c, name).is_some_and(|q| !q.is_zero()));
    everywhere.then(|| pod_sum(pod, |c| limit(c, name).unwrap_or_default()))
}

/// Pod overhead of `name`.
#[must_use]
pub fn pod_overhead(pod: &Pod, name: &str) -> Quantity {
    quantity(pod.spec().overhead.as_ref(), name).unwrap_or_default()
}

/// The cgroup limits of one container.
#[must_use]
pub fn container_limits(
    pod: &Pod,
    container: &Container,
    memory_capacity: i64,
) -> cri::LinuxContainerResources {
    let pod_level = pod.spec().resources.as_ref().and_then(|r| r.limits.as_ref());
    let cpu_limit = limit(container, "cpu").or_else(|| quantity(pod_level, "cpu"));
    let memory = limit(container, "memory").or_else(|| quantity(pod_level, "memory"));
    let cpu_request = request(container, "cpu").or(cpu_limit);
    cri::LinuxContainerResources {
        cpu_shares: milli_to_shares(cpu_request.map_or(0, Quantity::millis)),
        cpu_quota: milli_to_quota(cpu_limit.map_or(0, Quantity::millis)),
        cpu_period: QUOTA_PERIOD,
        memory_limit_in_bytes: memory.map_or(0, Quantity::units),
        oom_score_adj: oom_score_adj(pod, container, memory_capacity),
        ..cri::LinuxContainerResources::default()
    }
}

/// The sandbox's resources: the pod's sums, as upstream announces them to the runtime.
#[must_use]
pub fn sandbox_limits(pod: &Pod) -> cri::LinuxContainerResources {
    let cpu_limit = pod_limit(pod, "cpu");
    cri::LinuxContainerResources {
        cpu_shares: milli_to_shares(pod_request(pod, "cpu").millis()),
        cpu_quota: milli_to_quota(cpu_limit.map_or(0, Quantity::millis)),
        cpu_period: QUOTA_PERIOD,
        memory_limit_in_bytes: pod_limit(pod, "memory").map_or(0, Quantity::units),
        ..cri::LinuxContainerResources::default()
    }
}

/// How readily the kernel kills the container when memory is short (-997 … 1000).
#[must_use]
pub fn oom_score_adj(pod: &Pod, container: &Container, memory_capacity: i64) -> i64 {
    const NODE_CRITICAL_PRIORITY: i32 = 2_000_001_000;
    if pod.spec().priority.is_some_and(|p| p >= NODE_CRITICAL_PRIORITY) {
        return -997;
    }
    match Qos::of(pod) {
        Qos::Guaranteed => -997,
        Qos::BestEffort => 1000,
        Qos::Burstable => {
            let capacity = memory_capacity.max(1);
            let own = |c: &Container| request(c, "memory").map_or(0, Quantity::units);
            let mut adjust = 1000 - 1000 * own(container) / capacity;
            let sidecar = pod.init_containers().iter().any(|c| c.name == container.name && is_sidecar(c));
            if sidecar {
                let least = pod.spec().containers.iter().map(own).min().unwrap_or(0);
                adjust = adjust.min(1000 - 1000 * least / capacity);
            }
            adjust.clamp(3, 999)
        }
    }
}
