//! How many pods a usage asks for. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use copepod_api::Quantity;
use jiff::{SignedDuration, Timestamp};

use super::views::{PodMetrics, Source};
use crate::views::{Pod, condition};

/// A usage this close to the target changes nothing.
const TOLERANCE: f64 = 0.1;
/// While a pod starts, its use of CPU says little.
const STARTING: SignedDuration = SignedDuration::from_mins(5);
const FIRST_READY: SignedDuration = SignedDuration::from_secs(30);

/// What came of looking at a metric.
#[derive(Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) replicas: i64,
    /// Per pod.
    pub(super) average: Quantity,
    /// Percent of what was requested, when that is the target.
    pub(super) utilization: Option<i64>,
}

/// Usage in thousandths, by pod.
type Usages = BTreeMap<String, i64>;

/// Looks at a metric of the pods.
#[expect(clippy::cast_precision_loss, reason = "a ratio needs no more digits")]
pub(super) fn measure(
    pods: &[Arc<Pod>],
    metrics: &[PodMetrics],
    source: &Source,
    current: i64,
    now: Timestamp,
) -> Result<Measured, String> {
    if pods.is_empty() {
        return Err("no pods returned by selector while calculating replica count".to_owned());
    }
    let mut usages: Usages =
        metrics.iter().filter_map(|m| Some((m.metadata.name.clone(), used(m, source)?))).collect();
    let groups = group(pods, metrics, &usages, source, now);
    usages.retain(|name, _| !groups.ignored.contains(name) && !groups.unready.contains(name));
    if usages.is_empty() {
        return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
    }
    let format = |average: i64| {
        let average = Quantity::from_millis(average);
        // Bytes are written with binary suffixes.
        if source.name == "memory" {
            Quantity::from_bytes(0) + Quantity::from_bytes(average.units())
        } else {
            average
        }
    };
    if let Some(target) = source.target.average_value {
        let ratio = |usages: &Usages| mean(usages) as f64 / target.millis() as f64;
        let average = mean(&usages);
        let replicas = replicas(usages, &groups, current, &ratio, &|_| target.millis());
        return Ok(Measured { replicas, average: format(average), utilization: None });
    }
    let Some(target) = source.target.average_utilization else {
        let text = "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set";
        return Err(text.to_owned());
    };
    let requests = requests(pods, source)?;
    let percent = |usages: &Usages| {
        let known = usages.iter().filter_map(|(name, used)| Some((*used, *requests.get(name)?)));
        let (used, asked) = known.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (asked != 0).then(|| used * 100 / asked)
    };
    let Some(utilization) = percent(&usages) else {
        return Err("no metrics returned matched known pods".to_owned());
    };
    let average = mean(&usages);
    let ratio = |usages: &Usages| percent(usages).unwrap_or(0) as f64 / target as f64;
    let fallback = |name: &str| requests.get(name).copied().unwrap_or(0) * target.max(100) / 100;
    let replicas = replicas(usages, &groups, current, &ratio, &fallback);
    Ok(Measured { replicas, average: format(average), utilization: Some(utilization) })
}

fn mean(usages: &Usages) -> i64 {
    let count = i64::try_from(usages.len()).unwrap_or(1).max(1);
    usages.values().sum::<i64>() / count
}

/// The usage of a pod, or of one of its containers; `None` when a container's is not told.
fn used(metrics: &PodMetrics, source: &Source) -> Option<i64> {
    let ours =
        metrics.containers.iter().filter(|c| source.container.is_empty() || c.name == source.container);
    let amounts: Option<Vec<i64>> =
        ours.map(|c| c.usage.get(&source.name).map(|amount| amount.millis())).collect();
    amounts.filter(|amounts| !amounts.is_empty()).map(|amounts| amounts.iter().sum())
}

#[derive(Debug, Default)]
struct Groups {
    ready: i64,
    unready: BTreeSet<String>,
    missing: BTreeSet<String>,
    ignored: BTreeSet<String>,
}

fn group(
    pods: &[Arc<Pod>],
    metrics: &[PodMetrics],
    usages: &Usages,
    source: &Source,
    now: Timestamp,
) -> Groups {
    let mut groups = Groups::default();
    for pod in pods {
        let name = pod.metadata.name.clone();
        if pod.metadata.deleting() || &*pod.status.phase == "Failed" {
            groups.ignored.insert(name);
        } else if &*pod.status.phase == "Pending" {
            groups.unready.insert(name);
        } else if !usages.contains_key(&name) {
            groups.missing.insert(name);
        } else if source.name == "cpu" && starting(pod, metrics.iter().find(|m| m.metadata.name == name), now)
        {
            groups.unready.insert(name);
        } else {
            groups.ready += 1;
        }
    }
    groups
}

/// Whether a pod's use of CPU is still that of its start.
fn starting(pod: &Pod, metrics: Option<&PodMetrics>, now: Timestamp) -> bool {
    let (Some(ready), Some(started)) = (condition(&pod.status.conditions, "Ready"), pod.status.start_time)
    else {
        return true;
    };
    let since = ready.last_transition_time.unwrap_or(started);
    let not_ready = ready.status == "False";
    if started + STARTING > now {
        let window = metrics.map_or(Duration::ZERO, |m| window(&m.window));
        let measured = metrics.and_then(|m| m.timestamp);
        return not_ready || measured.is_some_and(|at| at < since + window);
    }
    not_ready && started + FIRST_READY > since
}

fn window(text: &str) -> Duration {
    let seconds = text.trim_end_matches('s').rsplit('m').next().and_then(|s| s.parse::<f64>().ok());
    Duration::from_secs_f64(seconds.unwrap_or(0.0).max(0.0))
}

fn requests(pods: &[Arc<Pod>], source: &Source) -> Result<Usages, String> {
    let mut all = Usages::new();
    for pod in pods {
        let mut sum = 0;
        let sidecar = |c: &&crate::views::Container| c.restart_policy.as_deref() == Some("Always");
        let containers = pod.spec.containers.iter().chain(pod.spec.init_containers.iter().filter(sidecar));
        for container in containers.filter(|c| source.container.is_empty() || *c.name == *source.container) {
            let Some(amount) = container.resources.requests.get(&*source.name) else {
                return Err(format!(
                    "missing request for {} in container {} of Pod {}",
                    source.name, container.name, pod.metadata.name
                ));
            };
            sum += amount.millis();
        }
        all.insert(pod.metadata.name.clone(), sum);
    }
    Ok(all)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "numbers of pods are small")]
fn replicas(
    mut usages: Usages,
    groups: &Groups,
    current: i64,
    ratio: &dyn Fn(&Usages) -> f64,
    full: &dyn Fn(&str) -> i64,
) -> i64 {
    let close = |ratio: f64| (1.0 - ratio).abs() <= TOLERANCE;
    let first = ratio(&usages);
    let grows = !groups.unready.is_empty() && first > 1.0;
    if !grows && groups.missing.is_empty() {
        return if close(first) { current } else { (first * groups.ready as f64).ceil() as i64 };
    }
    // Those we know nothing of count against the change, whichever way it goes.
    for name in &groups.missing {
        if first < 1.0 {
            usages.insert(name.clone(), full(name));
        } else if first > 1.0 {
            usages.insert(name.clone(), 0);
        }
    }
    if grows {
        usages.extend(groups.unready.iter().map(|name| (name.clone(), 0)));
    }
    let second = ratio(&usages);
    if close(second) || (first < 1.0 && second > 1.0) || (first > 1.0 && second < 1.0) {
        return current;
    }
    let new = (second * usages.len() as f64).ceil() as i64;
    let turned = (second < 1.0 && new > current) || (second > 1.0 && new < current);
    if turned { current } else { new }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, phase: &str) -> Arc<Pod> {
        let body = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]},
            "status": {"phase": phase, "startTime": "2026-01-01T00:00:00Z",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"}]},
        });
        Arc::new(serde_json::from_value(body).unwrap())
    }

    fn metrics(name: &str, cpu: &str) -> PodMetrics {
        let body = json!({
            "metadata": {"name": name}, "timestamp": "2026-01-01T01:00:00Z", "window": "15s",
            "containers": [{"name": "c", "usage": {"cpu": cpu}}],
        });
        serde_json::from_value(body).unwrap()
    }

    fn source(target: serde_json::Value) -> Source {
        serde_json::from_value(json!({"name": "cpu", "target": target})).unwrap()
    }

    #[test]
    fn numbers_follow_usage_and_what_is_unknown_holds_back() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let half = source(json!({"averageUtilization": 50}));
        let two = [pod("a", "Running"), pod("b", "Running")];
        let busy = [metrics("a", "100m"), metrics("b", "100m")];
        let measured = measure(&two, &busy, &half, 2, now).unwrap();
        assert_eq!((measured.replicas, measured.utilization), (4, Some(100)));
        assert_eq!(measured.average.to_string(), "100m");
        let fine = [metrics("a", "52m"), metrics("b", "50m")];
        assert_eq!(measure(&two, &fine, &half, 2, now).unwrap().replicas, 2, "close enough");
        let pending = [pod("a", "Running"), pod("b", "Pending")];
        assert_eq!(
            measure(&pending, &busy[..1], &half, 2, now).unwrap().replicas,
            2,
            "b may take half of it"
        );
        let value = source(json!({"averageValue": "20m"}));
        assert_eq!(measure(&two, &busy, &value, 2, now).unwrap().replicas, 10);
        assert_eq!(
            measure(&two, &[], &half, 2, now).unwrap_err(),
            "did not receive metrics for targeted pods (pods might be unready)"
        );
    }
}
