//! What clients and work queues of this process count, as text for `/metrics`, under upstream's names.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use copepod_telemetry::Exposition;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Upper bounds of answer times, in seconds.
const ANSWERS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// Upper bounds of times in and out of queues, in seconds.
const QUEUES: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0];

static REQUESTS: Mutex<BTreeMap<(u16, String, String), u64>> = Mutex::new(BTreeMap::new());
static LATENCIES: Mutex<BTreeMap<(String, String), Histogram<12>>> = Mutex::new(BTreeMap::new());
static NAMED: Mutex<BTreeMap<&'static str, Arc<QueueStats>>> = Mutex::new(BTreeMap::new());

/// Times, counted by upper bounds.
#[derive(Debug, Clone)]
struct Histogram<const N: usize> {
    buckets: [u64; N],
    count: u64,
    sum: f64,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Self { buckets: [0; N], count: 0, sum: 0.0 }
    }
}

impl<const N: usize> Histogram<N> {
    fn observe(&mut self, bounds: &[f64; N], took: Duration) {
        let seconds = took.as_secs_f64();
        self.count += 1;
        self.sum += seconds;
        if let Some(at) = bounds.iter().position(|bound| seconds <= *bound) {
            self.buckets[at] += 1;
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    fn write(&self, text: &mut Exposition, name: &str, labels: &[(&str, &str)], bounds: &[f64; N]) {
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        for (bound, count) in bounds.iter().zip(self.buckets) {
            below += count;
            let bound = bound.to_string();
            text.sample(&bucket, &[labels, &[("le", &bound)]].concat(), below as f64);
        }
        text.sample(&bucket, &[labels, &[("le", "+Inf")]].concat(), self.count as f64);
        text.sample(&format!("{name}_sum"), labels, self.sum);
        text.sample(&format!("{name}_count"), labels, self.count as f64);
    }
}

/// Counts an answer to a request; `code` 0 is none.
pub(crate) fn answered(server: &str, method: &http::Method, code: u16, took: Duration) {
    let host = server.rsplit("://").next().unwrap_or(server).to_owned();
    let method = method.as_str();
    *REQUESTS.lock().entry((code, host.clone(), method.to_owned())).or_default() += 1;
    LATENCIES.lock().entry((host, method.to_owned())).or_default().observe(&ANSWERS, took);
}

/// The counters of one work queue.
#[derive(Debug, Default)]
pub(crate) struct QueueStats {
    adds: AtomicU64,
    depth: AtomicU64,
    retries: AtomicU64,
    waited: Mutex<Histogram<12>>,
    worked: Mutex<Histogram<12>>,
    /// Since when keys are worked on.
    working: Mutex<Vec<Instant>>,
}

impl QueueStats {
    /// The counters under a name, which queues may share.
    pub(crate) fn named(name: &'static str) -> Arc<Self> {
        Arc::clone(NAMED.lock().entry(name).or_default())
    }

    pub(crate) fn added(&self) {
        self.adds.fetch_add(1, Relaxed);
        self.depth.fetch_add(1, Relaxed);
    }

    pub(crate) fn taken(&self, since: Instant) {
        self.depth.fetch_sub(1, Relaxed);
        self.waited.lock().observe(&QUEUES, since.elapsed());
    }

    pub(crate) fn retried(&self) {
        self.retries.fetch_add(1, Relaxed);
    }

    pub(crate) fn begun(&self, at: Instant) {
        self.working.lock().push(at);
    }

    pub(crate) fn done(&self, since: Instant) {
        let mut working = self.working.lock();
        if let Some(at) = working.iter().position(|at| *at == since) {
            working.swap_remove(at);
        }
        drop(working);
        self.worked.lock().observe(&QUEUES, since.elapsed());
    }
}

/// A family, its kind, and what it tells.
type Family = (&'static str, &'static str, &'static str);

/// Everything counted so far.
pub fn write(text: &mut Exposition) {
    write_requests(text);
    write_queues(text);
}

#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
fn write_requests(text: &mut Exposition) {
    const TOTAL: &str = "rest_client_requests_total";
    const TOOK: &str = "rest_client_request_duration_seconds";
    text.family(TOTAL, "counter", "Number of HTTP requests, partitioned by status code, method, and host.");
    for ((code, host, method), count) in REQUESTS.lock().iter() {
        let code = if *code == 0 { "<error>".to_owned() } else { code.to_string() };
        text.sample(TOTAL, &[("code", &code), ("host", host), ("method", method)], *count as f64);
    }
    text.family(TOOK, "histogram", "Request latency in seconds. Broken down by verb, and host.");
    for ((host, verb), histogram) in LATENCIES.lock().iter() {
        histogram.write(text, TOOK, &[("host", host), ("verb", verb)], &ANSWERS);
    }
}

/// A family of the queues and where its number is.
type Number = (Family, fn(&QueueStats) -> f64);

#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
fn write_queues(text: &mut Exposition) {
    let queues: Vec<_> = NAMED.lock().iter().map(|(name, stats)| (*name, Arc::clone(stats))).collect();
    let numbers: [Number; 5] = [
        (("workqueue_adds_total", "counter", "Total number of adds handled by workqueue"), |q| {
            q.adds.load(Relaxed) as f64
        }),
        (("workqueue_depth", "gauge", "Current depth of workqueue"), |q| q.depth.load(Relaxed) as f64),
        (("workqueue_retries_total", "counter", "Total number of retries handled by workqueue"), |q| {
            q.retries.load(Relaxed) as f64
        }),
        (
            (
                "workqueue_unfinished_work_seconds",
                "gauge",
                "How many seconds of work has done that is in progress and hasn't been observed by work_duration.",
            ),
            |q| q.working.lock().iter().map(|at| at.elapsed().as_secs_f64()).sum(),
        ),
        (
            (
                "workqueue_longest_running_processor_seconds",
                "gauge",
                "How many seconds has the longest running processor for workqueue been running.",
            ),
            |q| q.working.lock().iter().map(|at| at.elapsed().as_secs_f64()).fold(0.0, f64::max),
        ),
    ];
    for ((name, kind, help), value) in numbers {
        text.family(name, kind, help);
        queues.iter().for_each(|(queue, stats)| text.sample(name, &[("name", queue)], value(stats)));
    }
    type Times = fn(&QueueStats) -> &Mutex<Histogram<12>>;
    let times: [(&str, &str, Times); 2] = [
        (
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested.",
            |q| &q.waited,
        ),
        (
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes.",
            |q| &q.worked,
        ),
    ];
    for (name, help, histogram) in times {
        text.family(name, "histogram", help);
        for (queue, stats) in &queues {
            histogram(stats).lock().write(text, name, &[("name", queue)], &QUEUES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn queues_and_requests_are_counted_under_upstreams_names() {
        let stats = QueueStats::named("test_queue");
        stats.added();
        let at = Instant::now();
        tokio::time::advance(Duration::from_secs(2)).await;
        stats.taken(at);
        stats.begun(Instant::now());
        tokio::time::advance(Duration::from_secs(3)).await;
        answered("https://host:6443", &http::Method::GET, 200, Duration::from_millis(7));
        let mut text = Exposition::default();
        write(&mut text);
        let text = text.into_string();
        for line in [
            "workqueue_adds_total{name=\"test_queue\"} 1",
            "workqueue_depth{name=\"test_queue\"} 0",
            "workqueue_queue_duration_seconds_bucket{name=\"test_queue\",le=\"10\"} 1",
            "workqueue_longest_running_processor_seconds{name=\"test_queue\"} 3",
            "rest_client_requests_total{code=\"200\",host=\"host:6443\",method=\"GET\"} 1",
            "rest_client_request_duration_seconds_bucket{host=\"host:6443\",verb=\"GET\",le=\"0.025\"} 1",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
