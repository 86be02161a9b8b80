//! Counters of requests, as text for `/metrics`.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::request::RequestInfo;

/// Upper bounds of the latency buckets, in milliseconds.
const BUCKETS: &[u64] = &[5, 25, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000];

/// What requests are counted by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Label {
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
}

impl Label {
    /// The label of a request. Paths outside the API share one, so that clients cannot make labels up.
    pub(crate) fn of(info: &RequestInfo) -> Self {
        let resource = if info.is_resource { info.resource.clone() } else { String::new() };
        Self {
            verb: info.verb.to_ascii_uppercase(),
            group: info.group.clone(),
            version: info.version.clone(),
            resource,
            subresource: info.subresource.clone(),
        }
    }
}

#[derive(Debug, Default, Clone)]
struct Series {
    by_code: BTreeMap<u16, u64>,
    buckets: [u64; BUCKETS.len()],
    count: u64,
    micros: u64,
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<BTreeMap<Label, Series>>);

/// Most label sets kept; requests for resources that do not exist must not grow memory.
const MAX_SERIES: usize = 2000;

impl Metrics {
    /// Counts an answered request.
    pub(crate) fn observe(&self, label: Label, code: u16, took: Duration) {
        let mut all = self.0.lock();
        if code == 404 && !all.contains_key(&label) || all.len() >= MAX_SERIES && !all.contains_key(&label) {
            return;
        }
        let series = all.entry(label).or_default();
        *series.by_code.entry(code).or_default() += 1;
        series.count += 1;
        series.micros += u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        for (bucket, bound) in series.buckets.iter_mut().zip(BUCKETS) {
            if millis <= *bound {
                *bucket += 1;
            }
        }
    }

    /// The text exposition.
    pub(crate) fn render(&self) -> String {
        let all = self.0.lock().clone();
        let mut out = String::from(
            "# HELP apiserver_request_total Counter of apiserver requests broken out for each verb, resource and code.\n\
             # TYPE apiserver_request_total counter\\n",
        );
        for (label, series) in &all {
            for (code, count) in &series.by_code {
                line(
                    &mut out,
                    "apiserver_request_total",
                    label,
                    &format!(",code=\"{code}\""),
                    &count.to_string(),
                );
            }
        }
        out.push_str(
            "# HELP apiserver_request_duration_seconds Response latency in seconds for each verb and resource.\n\
             # TYPE apiserver_request_duration_seconds histogram\\n",
        );
        for (label, series) in &all {
            let name = "apiserver_request_duration_seconds";
            for (count, bound) in series.buckets.iter().zip(BUCKETS) {
                let le = format!(",le=\"{}\"", seconds(bound * 1000));
                line(&mut out, &format!("{name}_bucket"), label, &le, &count.to_string());
            }
            line(&mut out, &format!("{name}_bucket"), label, ",le=\"+Inf\"", &series.count.to_string());
            line(&mut out, &format!("{name}_sum"), label, "", &seconds(series.micros));
            line(&mut out, &format!("{name}_count"), label, "", &series.count.to_string());
        }
        out
    }
}

/// Microseconds as decimal seconds, without trailing zeros.
fn seconds(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn line(out: &mut String, name: &str, label: &Label, more: &str, value: &str) {
    let Label { verb, group, version, resource, subresource } = label;
    out.push_str(&format!(
        "{name}{{verb={verb:?},group={group:?},version={version:?},resource={resource:?},subresource={subresource:?}{more}}} {value}\n"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_code_and_bucket() {
        let metrics = Metrics::default();
        let info = RequestInfo {
            is_resource: true,
            verb: "get".into(),
            resource: "pods".into(),
            ..RequestInfo::default()
        };
        metrics.observe(Label::of(&info), 200, Duration::from_millis(30));
        metrics.observe(Label::of(&info), 404, Duration::from_millis(3));
        let text = metrics.render();
        assert!(text.contains(r#"resource="pods",subresource="",code="200"} 1"#), "{text}");
        assert!(text.contains(r#"le="0.025"} 1"#) && text.contains(r#"le="0.1"} 2"#));
        assert!(text.contains("_sum{") && text.contains("} 0.033"));
    }
}
