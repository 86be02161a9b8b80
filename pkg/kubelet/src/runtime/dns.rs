//! Resolver configuration and host names of pods.

use std::path::Path;

use k8s_openapi::api::core::v1::Pod;

use crate::config::Config;
use crate::pod::PodExt;

/// Most nameservers libc reads.
const MAX_SERVERS: usize = 3;
/// Most search domains.
const MAX_SEARCHES: usize = 32;
/// Most characters of all search domains together.
const MAX_SEARCH_CHARS: usize = 2048;

/// One resolver configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodDns {
    /// Nameservers.
    pub servers: Vec<String>,
    /// Search domains.
    pub searches: Vec<String>,
    /// Options.
    pub options: Vec<String>,
}

/// Reads `resolv.conf` syntax; unknown lines are ignored.
#[must_use]
pub fn parse_resolv_conf(text: &str) -> PodDns {
    let mut dns = PodDns::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => dns.servers.extend(words.next().map(str::to_owned)),
            // The last search line wins; a bare dot is kept for the runtime.
            Some("search") => dns.searches = words.map(|w| trim_dot(w).to_owned()).collect(),
            Some("options") => dns.options.extend(words.map(str::to_owned)),
            _ => {}
        }
    }
    dns
}

fn trim_dot(word: &str) -> &str {
    if word == "." { word } else { word.trim_end_matches('.') }
}

/// The host's resolver configuration; empty when the file is not there.
#[must_use]
pub fn host_dns(path: Option<&Path>) -> Option<PodDns> {
    let path = path?;
    match std::fs::read_to_string(path) {
        Ok(text) => Some(parse_resolv_conf(&text)),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "resolver configuration cannot be read");
            Some(PodDns::default())
        }
    }
}

/// The pod's configuration, and a warning (event reason and text) when something was left out.
#[must_use]
pub fn render_dns(
    config: &Config,
    pod: &Pod,
    host: Option<&PodDns>,
) -> (PodDns, Option<(&'static str, String)>) {
    let spec = pod.spec();
    let mut warning = None;
    let policy = match spec.dns_policy.as_deref().unwrap_or("ClusterFirst") {
        "ClusterFirst" if pod.is_host_network() => "Default",
        "ClusterFirstWithHostNet" => "ClusterFirst",
        other => other,
    };
    let mut dns = match policy {
        "None" => PodDns::default(),
        "ClusterFirst" if !config.cluster_dns.is_empty() => cluster_dns(config, pod, host),
        other => {
            if other == "ClusterFirst" {
                warning = Some((
                    "MissingClusterDNS",
                    format!(
                        "pod: \"{}_{}({})\". kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. Falling back to \"Default\" policy.",
                        pod.name(),
                        pod.namespace(),
                        pod.uid()
                    ),
                ));
            }
            host.cloned().unwrap_or_else(no_dns)
        }
    };
    if let Some(own) = &spec.dns_config {
        merge(&mut dns.servers, own.nameservers.iter().flatten().cloned());
        merge(&mut dns.searches, own.searches.iter().flatten().map(|s| trim_dot(s).to_owned()));
        for option in own.options.iter().flatten() {
            let name = option.name.as_deref().unwrap_or_default();
            dns.options.retain(|o| o.split(':').next() != Some(name));
            dns.options.push(match &option.value {
                Some(value) if !value.is_empty() => format!("{name}:{value}"),
                _ => name.to_owned(),
            });
        }
    }
    if fit(&mut dns) {
        warning.get_or_insert_with(|| {
            (
                "DNSConfigForming",
                "Nameserver or search limits were exceeded, some entries have been omitted".to_owned(),
            )
        });
    }
    (dns, warning)
}

/// Nothing resolves: what upstream gives pods when the node has no resolver file.
fn no_dns() -> PodDns {
    PodDns { servers: vec!["127.0.0.1".to_owned()], searches: vec![".".to_owned()], options: Vec::new() }
}

fn cluster_dns(config: &Config, pod: &Pod, host: Option<&PodDns>) -> PodDns {
    let domain = &config.cluster_domain;
    let mut searches = Vec::new();
    if !domain.is_empty() {
        searches = vec![format!("{}.svc.{domain}", pod.namespace()), format!("svc.{domain}"), domain.clone()];
    }
    merge(&mut searches, host.into_iter().flat_map(|h| h.searches.iter().cloned()));
    PodDns {
        servers: config.cluster_dns.iter().map(ToString::to_string).collect(),
        searches,
        options: vec!["ndots:5".to_owned()],
    }
}

fn merge(list: &mut Vec<String>, more: impl Iterator<Item = String>) {
    for item in more {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}

/// Cuts to libc's limits; true when something was cut.
fn fit(dns: &mut PodDns) -> bool {
    let cut = dns.servers.len() > MAX_SERVERS || dns.searches.len() > MAX_SEARCHES;
    dns.servers.truncate(MAX_SERVERS);
    dns.searches.truncate(MAX_SEARCHES);
    let mut length = 0;
    let before = dns.searches.len();
    dns.searches.retain(|s| {
        length += s.len() + 1;
        length <= MAX_SEARCH_CHARS + 1
    });
    cut || before != dns.searches.len()
}

/// The pod's host name and, with a subdomain, its domain.
#[must_use]
pub fn hostname_and_domain(pod: &Pod, cluster_domain: &str) -> (String, String) {
    let spec = pod.spec();
    if let Some(name) = spec.hostname_override.as_deref().filter(|n| !n.is_empty()) {
        return (name.to_owned(), String::new());
    }
    let name = spec.hostname.as_deref().filter(|n| !n.is_empty()).unwrap_or_else(|| pod.name());
    let mut hostname: String = name.chars().take(63).collect();
    if hostname.len() < name.len() {
        hostname = hostname.trim_end_matches(['-', '.']).to_owned();
    }
    let domain = match spec.subdomain.as_deref() {
        Some(sub) if !sub.is_empty() => format!("{sub}.{}.svc.{cluster_domain}", pod.namespace()),
        _ => String::new(),
    };
    (hostname, domain)
}

/// What `hostname` prints in the pod.
///
/// # Errors
/// When setHostnameAsFQDN makes a name the kernel cannot hold.
pub fn kernel_hostname(pod: &Pod, hostname: &str, domain: &str) -> Result<String, String> {
    if pod.spec().set_hostname_as_fqdn != Some(true) || domain.is_empty() {
        return Ok(hostname.to_owned());
    }
    let full = format!("{hostname}.{domain}");
    if full.len() > 64 {
        return Err(format!(
            "failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too long (64 characters is the max, {} characters requested)",
            full.len()
        ));
    }
    Ok(full)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: serde_json::Value) -> Pod {
        serde_json::from_value(
            serde_json::json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}),
        )
        .unwrap()
    }

    fn config() -> Config {
        Config { cluster_dns: vec!["10.96.0.10".parse().unwrap()], ..Config::default() }
    }

    #[test]
    fn policies() {
        let host = parse_resolv_conf("# c\nsearch lan. corp\nnameserver 1.1.1.1\noptions edns0\n");
        let render = |spec| render_dns(&config(), &pod(spec), Some(&host)).0;
        let cluster = render(serde_json::json!({"containers": []}));
        assert_eq!(cluster.servers, ["10.96.0.10"]);
        assert_eq!(
            cluster.searches,
            ["ns.svc.cluster.local", "svc.cluster.local", "cluster.local", "lan", "corp"]
        );
        assert_eq!(cluster.options, ["ndots:5"]);
        assert_eq!(render(serde_json::json!({"containers": [], "hostNetwork": true})), host);
        assert_eq!(render(serde_json::json!({"containers": [], "dnsPolicy": "Default"})), host);
        let own = render(serde_json::json!({"containers": [], "dnsPolicy": "None", "dnsConfig":
            {"nameservers": ["9.9.9.9"], "searches": ["a"], "options": [{"name": "ndots", "value": "2"}, {"name": "rotate"}]}}));
        assert_eq!(own.servers, ["9.9.9.9"]);
        assert_eq!(own.options, ["ndots:2", "rotate"]);
        let merged = render(
            serde_json::json!({"containers": [], "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]}}),
        );
        assert_eq!(merged.options, ["ndots:1"]);
    }

    #[test]
    fn missing_cluster_dns_falls_back_and_says_so() {
        let (dns, warning) =
            render_dns(&Config::default(), &pod(serde_json::json!({"containers": []})), None);
        assert_eq!(dns, no_dns());
        assert_eq!(warning.unwrap().0, "MissingClusterDNS");
    }

    #[test]
    fn host_names() {
        let p = pod(
            serde_json::json!({"containers": [], "hostname": "h", "subdomain": "s", "setHostnameAsFQDN": true}),
        );
        let (host, domain) = hostname_and_domain(&p, "cluster.local");
        assert_eq!(kernel_hostname(&p, &host, &domain).unwrap(), "h.s.ns.svc.cluster.local");
        assert!(kernel_hostname(&p, &"x".repeat(60), &domain).is_err());
    }
}
