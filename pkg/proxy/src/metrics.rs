//! The proxy's metrics, with upstream's names.

use std::time::Duration;

use copepod_sys::clock;
use copepod_telemetry::Exposition;
use parking_lot::Mutex;

/// Upper bounds in seconds: 1 ms doubling, as upstream's.
const BUCKETS: [f64; 15] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];

#[derive(Debug, Default)]
struct Histogram {
    counts: [u64; BUCKETS.len()],
    total: u64,
    sum: f64,
}

impl Histogram {
    fn observe(&mut self, seconds: f64) {
        self.total += 1;
        self.sum += seconds;
        for (count, bound) in self.counts.iter_mut().zip(BUCKETS) {
            *count += u64::from(seconds <= bound);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    fn write(&self, out: &mut Exposition, name: &str, help: &str) {
        out.family(name, "histogram", help);
        for (count, bound) in self.counts.iter().zip(BUCKETS) {
            let labels = [("ip_family", "IPv4"), ("le", &bound.to_string())];
            out.sample(&format!("{name}_bucket"), &labels, *count as f64);
        }
        out.sample(&format!("{name}_bucket"), &[("ip_family", "IPv4"), ("le", "+Inf")], self.total as f64);
        out.sample(&format!("{name}_sum"), &[("ip_family", "IPv4")], self.sum);
        out.sample(&format!("{name}_count"), &[("ip_family", "IPv4")], self.total as f64);
    }
}

#[derive(Debug, Default)]
struct Values {
    sync: Histogram,
    last_sync: f64,
    last_queued: f64,
    service_changes: u64,
    endpoint_changes: u64,
    failures: u64,
    repairs: u64,
    no_local: [u64; 2],
}

/// Counters and times of the sync loop.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<Values>);

#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit 2^52")]
fn seconds_now() -> f64 {
    clock::now().as_millisecond() as f64 / 1000.0
}

impl Metrics {
    pub(crate) fn queued(&self, is_service: bool) {
        let mut values = self.0.lock();
        values.last_queued = seconds_now();
        if is_service {
            values.service_changes += 1;
        } else {
            values.endpoint_changes += 1;
        }
    }

    pub(crate) fn synced(&self, took: Duration) {
        let mut values = self.0.lock();
        values.sync.observe(took.as_secs_f64());
        values.last_sync = seconds_now();
    }

    pub(crate) fn failed(&self) {
        self.0.lock().failures += 1;
    }

    pub(crate) fn repaired(&self) {
        self.0.lock().repairs += 1;
    }

    /// Ports whose Local policy finds no endpoint here.
    pub(crate) fn set_no_local(&self, internal: u64, external: u64) {
        self.0.lock().no_local = [internal, external];
    }

    /// All of them as text. `mode` names the failure counter.
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub(crate) fn render(&self, mode: &str) -> String {
        let values = self.0.lock();
        let mut out = Exposition::default();
        let family = [("ip_family", "IPv4")];
        let name = "kubeproxy_sync_proxy_rules_duration_seconds";
        values.sync.write(&mut out, name, "SyncProxyRules latency in seconds");
        let mut gauge = |name: &str, kind: &str, help: &str, value: f64| {
            out.family(name, kind, help);
            out.sample(name, &family, value);
        };
        let prefix = "kubeproxy_sync_proxy_rules";
        gauge(
            &format!("{prefix}_last_timestamp_seconds"),
            "gauge",
            "The last time proxy rules were synced",
            values.last_sync,
        );
        gauge(
            &format!("{prefix}_last_queued_timestamp_seconds"),
            "gauge",
            "The last time a sync of proxy rules was queued",
            values.last_queued,
        );
        let services = values.service_changes as f64;
        gauge(&format!("{prefix}_service_changes_total"), "counter", "Changes of Services", services);
        let endpoints = values.endpoint_changes as f64;
        gauge(&format!("{prefix}_endpoint_changes_total"), "counter", "Changes of endpoints", endpoints);
        let failures = match mode {
            "iptables" => format!("{prefix}_iptables_restore_failures_total"),
            _ => format!("{prefix}_nftables_sync_failures_total"),
        };
        gauge(&failures, "counter", "Failed syncs", values.failures as f64);
        gauge(
            "copepod_proxy_repairs_total",
            "counter",
            "Rules restored after others removed them",
            values.repairs as f64,
        );
        let name = format!("{prefix}_no_local_endpoints_total");
        out.family(&name, "gauge", "Service ports with a Local traffic policy and no local endpoint");
        for (policy, count) in ["internal", "external"].into_iter().zip(values.no_local) {
            out.sample(&name, &[("ip_family", "IPv4"), ("traffic_policy", policy)], count as f64);
        }
        out.into_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_upstreams() {
        let metrics = Metrics::default();
        metrics.synced(Duration::from_millis(3));
        let text = metrics.render("nftables");
        assert!(text.contains(
            "kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0.004\"} 1"
        ));
        assert!(text.contains(
            "kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0.002\"} 0"
        ));
        assert!(text.contains("kubeproxy_sync_proxy_rules_nftables_sync_failures_total"));
    }
}
