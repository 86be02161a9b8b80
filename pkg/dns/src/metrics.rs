//! The server's metrics, with CoreDNS' names.

use std::collections::BTreeMap;

use copepod_telemetry::Exposition;
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;
use parking_lot::Mutex;

use crate::message::Transport;

#[derive(Debug, Default)]
struct Values {
    requests: BTreeMap<(&'static str, String), u64>,
    responses: BTreeMap<String, u64>,
    hits: u64,
    misses: u64,
    forwarded: u64,
}

/// Counters of queries and answers.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<Values>);

impl Metrics {
    /// A query came. Types nobody uses count as "other", so that a client cannot make us remember thousands.
    pub(crate) fn request(&self, transport: Transport, kind: RecordType) {
        use RecordType::{A, AAAA, ANY, CNAME, HTTPS, MX, NS, PTR, SOA, SRV, TXT};
        let known = matches!(kind, A | AAAA | ANY | CNAME | HTTPS | MX | NS | PTR | SOA | SRV | TXT);
        let kind = if known { kind.to_string() } else { "other".to_owned() };
        *self.0.lock().requests.entry((transport.name(), kind)).or_default() += 1;
    }

    /// An answer went.
    pub(crate) fn response(&self, code: ResponseCode) {
        let code = match code {
            ResponseCode::NoError => "NOERROR",
            ResponseCode::NXDomain => "NXDOMAIN",
            ResponseCode::ServFail => "SERVFAIL",
            ResponseCode::Refused => "REFUSED",
            ResponseCode::FormErr => "FORMERR",
            ResponseCode::NotImp => "NOTIMP",
            _ => "other",
        };
        *self.0.lock().responses.entry(code.to_owned()).or_default() += 1;
    }

    pub(crate) fn cache(&self, hit: bool) {
        let mut values = self.0.lock();
        if hit {
            values.hits += 1;
        } else {
            values.misses += 1;
        }
    }

    pub(crate) fn forwarded(&self) {
        self.0.lock().forwarded += 1;
    }

    /// All of them as text.
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub(crate) fn render(&self, cached: usize) -> String {
        let values = self.0.lock();
        let mut out = Exposition::default();
        let server = ("server", "dns://:53");
        out.family("coredns_dns_requests_total", "counter", "Queries by protocol and type");
        for ((proto, kind), count) in &values.requests {
            let labels = [server, ("proto", *proto), ("type", kind.as_str())];
            out.sample("coredns_dns_requests_total", &labels, *count as f64);
        }
        out.family("coredns_dns_responses_total", "counter", "Answers by code");
        for (code, count) in &values.responses {
            out.sample("coredns_dns_responses_total", &[server, ("rcode", code.as_str())], *count as f64);
        }
        let singles = [
            ("coredns_cache_hits_total", "counter", "Forwarded names found in the cache", values.hits),
            (
                "coredns_cache_misses_total",
                "counter",
                "Forwarded names not found in the cache",
                values.misses,
            ),
            ("coredns_forward_requests_total", "counter", "Queries sent to upstreams", values.forwarded),
            ("coredns_cache_entries", "gauge", "Answers in the cache", cached as u64),
        ];
        for (name, kind, help, value) in singles {
            out.family(name, kind, help);
            out.sample(name, &[server], value as f64);
        }
        out.into_string()
    }
}
