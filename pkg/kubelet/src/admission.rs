//! What this node refuses: pods the scheduler could not have meant for it.

use std::collections::BTreeMap;
use std::sync::{OnceLock, Weak};

use copepod_api::Quantity;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Pod, Toleration};
use parking_lot::RwLock;

use crate::node::status::Pressure;
use crate::pod::resources::{Qos, pod_request};
use crate::pod::{PodExt, is_sidecar};
use crate::types::PodRef;

/// What the rules compare pods with.
#[derive(Debug, Clone, Default)]
pub struct NodeFacts {
    /// The node's labels.
    pub labels: BTreeMap<String, String>,
    /// What pods may request together.
    pub allocatable: BTreeMap<String, Quantity>,
    /// NoExecute taints, as (key, value, effect).
    pub taints: Vec<(String, String, String)>,
}

/// Sysctls that touch nothing but their own pod.
const SAFE_SYSCTLS: &[&str] = &[
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// What a pod is refused with whose selector or affinity the node does not match.
pub const NODE_AFFINITY: &str = "NodeAffinity";

/// Who can ask the API server what the node is now.
pub trait NodeFetch: std::fmt::Debug + Send + Sync {
    /// Asks, and tells the rules.
    fn fetch(&self) -> BoxFuture<'_, ()>;
}

/// The rules.
#[derive(Debug, Default)]
pub struct Admission {
    facts: RwLock<NodeFacts>,
    fetch: OnceLock<Weak<dyn NodeFetch>>,
    pressure: RwLock<Pressure>,
    allowed_sysctls: Vec<String>,
}

impl Admission {
    /// Rules that allow these sysctls (names, or `prefix.*`) beside the safe ones.
    #[must_use]
    pub fn new(allowed_sysctls: Vec<String>) -> Self {
        Self { allowed_sysctls, ..Self::default() }
    }

    fn refuse_sysctls(&self, pod: &Pod) -> Option<(&'static str, String)> {
        let context = pod.spec().security_context.as_ref()?;
        let allowed = |name: &str| {
            SAFE_SYSCTLS.contains(&name)
                || self.allowed_sysctls.iter().any(|a| match a.strip_suffix('*') {
                    Some(prefix) => name.starts_with(prefix),
                    None => a == name,
                })
        };
        let names = context.sysctls.iter().flatten().map(|s| s.name.replace('/', "."));
        let bad = names.into_iter().find(|name| !allowed(name))?;
        Some(("SysctlForbidden", format!("forbidden sysctl: {bad:?} not allowlisted")))
    }

    /// Takes over what the node is short of.
    pub fn set_pressure(&self, pressure: Pressure) {
        *self.pressure.write() = pressure;
    }

    /// A node under pressure takes no more pods, but for critical ones and, when only memory is short, those that
    /// request some or tolerate it.
    fn refuse_pressure(&self, pod: &Pod) -> Option<(&'static str, String)> {
        let pressure = *self.pressure.read();
        let names = pressure.names().filter(|_| !pod.is_critical())?;
        if pressure == (Pressure { memory: true, ..Pressure::default() }) {
            let taint = ("node.kubernetes.io/memory-pressure", "", "NoSchedule");
            let taint = (taint.0.to_owned(), taint.1.to_owned(), taint.2.to_owned());
            let tolerations = pod.spec().tolerations.as_deref().unwrap_or_default();
            if Qos::of(pod) != Qos::BestEffort || tolerations.iter().any(|t| tolerates(t, &taint)) {
                return None;
            }
        }
        Some(("Evicted", format!("The node had condition: {names}. ")))
    }

    /// Takes over what the node is now.
    pub fn set_facts(&self, facts: NodeFacts) {
        *self.facts.write() = facts;
    }

    /// Sets who can ask for the node; later calls change nothing.
    pub fn set_fetch(&self, fetch: Weak<dyn NodeFetch>) {
        self.fetch.get_or_init(|| fetch);
    }

    /// Looks at the node as it is now: its labels may be newer than what was last seen of them.
    pub async fn refresh(&self) {
        if let Some(fetch) = self.fetch.get().and_then(Weak::upgrade) {
            fetch.fetch().await;
        }
    }

    /// Why `pod` is refused beside `others`, which take room on this node: reason and message of its Failed status.
    #[must_use]
    pub fn refuse(&self, pod: &Pod, others: &[PodRef]) -> Option<(&'static str, String)> {
        if let Some(refusal) = self.refuse_pressure(pod).or_else(|| self.refuse_sysctls(pod)) {
            return Some(refusal);
        }
        let facts = self.facts.read();
        if facts.allocatable.is_empty() {
            // Nothing is known yet: the scheduler's word counts.
            return None;
        }
        let living: Vec<_> = others.iter().filter(|p| p.uid() != pod.uid()).collect();
        refuse_resources(&facts, pod, &living)
            .or_else(|| refuse_selector(&facts, pod))
            .or_else(|| refuse_ports(pod, &living))
            .or_else(|| refuse_taints(&facts, pod))
            .or_else(|| refuse_os(pod))
    }
}

fn refuse_resources(facts: &NodeFacts, pod: &Pod, others: &[&PodRef]) -> Option<(&'static str, String)> {
    let count = facts.allocatable.get("pods").copied().unwrap_or_default();
    let running = i64::try_from(others.len()).unwrap_or(i64::MAX);
    if running + 1 > count.units() {
        let text = format!(
            "Node didn't have enough resource: pods, requested: 1, used: {running}, capacity: {}",
            count.units()
        );
        return Some(("OutOfpods", text));
    }
    for (name, reason) in [("cpu", "OutOfcpu"), ("memory", "OutOfmemory")] {
        let Some(capacity) = facts.allocatable.get(name).copied() else { continue };
        let asked = pod_request(pod, name);
        let used = others.iter().map(|p| pod_request(p, name)).sum::<Quantity>();
        if !asked.is_zero() && used + asked > capacity {
            let number = |q: Quantity| if name == "cpu" { q.millis() } else { q.units() };
            let text = format!(
                "Node didn't have enough resource: {name}, requested: {}, used: {}, capacity: {}",
                number(asked),
                number(used),
                number(capacity)
            );
            return Some((reason, text));
        }
    }
    None
}

fn refuse_selector(facts: &NodeFacts, pod: &Pod) -> Option<(&'static str, String)> {
    let spec = pod.spec();
    let selector = spec.node_selector.iter().flatten().all(|(k, v)| facts.labels.get(k) == Some(v));
    let terms = spec
        .affinity
        .as_ref()
        .and_then(|a| a.node_affinity.as_ref())
        .and_then(|n| n.required_during_scheduling_ignored_during_execution.as_ref())
        .map(|s| &s.node_selector_terms);
    let affinity = terms.is_none_or(|terms| {
        terms.iter().any(|term| {
            term.match_expressions.iter().flatten().all(|e| {
                expression(facts.labels.get(&e.key), &e.operator, e.values.as_deref().unwrap_or_default())
            })
        })
    });
    (!(selector && affinity)).then(|| {
        (
            NODE_AFFINITY,
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector".to_owned(),
        )
    })
}

fn expression(value: Option<&String>, operator: &str, values: &[String]) -> bool {
    let number = |text: Option<&String>| text.and_then(|t| t.parse::<i64>().ok());
    match operator {
        "In" => value.is_some_and(|v| values.contains(v)),
        "NotIn" => value.is_none_or(|v| !values.contains(v)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number(value).zip(number(values.first())).is_some_and(|(a, b)| a > b),
        "Lt" => number(value).zip(number(values.first())).is_some_and(|(a, b)| a < b),
        _ => false,
    }
}

/// Host ports as (address, protocol, port); an unset address is all of them.
fn host_ports(pod: &Pod) -> Vec<(String, String, i32)> {
    let sidecars = pod.init_containers().iter().filter(|c| is_sidecar(c));
    pod.spec()
        .containers
        .iter()
        .chain(sidecars)
        .flat_map(|c| c.ports.iter().flatten())
        .filter_map(|p| {
            let port = p.host_port.filter(|p| *p > 0)?;
            let address =
                p.host_ip.clone().filter(|ip| !ip.is_empty()).unwrap_or_else(|| "0.0.0.0".to_owned());
            Some((address, p.protocol.clone().unwrap_or_else(|| "TCP".to_owned()), port))
        })
        .collect()
}

fn refuse_ports(pod: &Pod, others: &[&PodRef]) -> Option<(&'static str, String)> {
    let wanted = host_ports(pod);
    let taken: Vec<_> = others.iter().flat_map(|p| host_ports(p)).collect();
    let clash = wanted.iter().any(|(ip, protocol, port)| {
        taken.iter().any(|(other, p, n)| {
            p == protocol && n == port && (ip == other || ip == "0.0.0.0" || other == "0.0.0.0")
        })
    });
    clash.then(|| {
        (
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
                .to_owned(),
        )
    })
}

fn refuse_taints(facts: &NodeFacts, pod: &Pod) -> Option<(&'static str, String)> {
    let tolerations = pod.spec().tolerations.as_deref().unwrap_or_default();
    let bad = facts
        .taints
        .iter()
        .filter(|t| t.2 == "NoExecute")
        .find(|t| !tolerations.iter().any(|o| tolerates(o, t)));
    bad.map(|(key, value, _)| {
        (
            "TaintToleration",
            format!("Predicate TaintToleration failed: node(s) had untolerated taint {{{key}: {value}}}"),
        )
    })
}

fn tolerates(toleration: &Toleration, (key, value, effect): &(String, String, String)) -> bool {
    let given = |field: &Option<String>| field.clone().filter(|f| !f.is_empty());
    let key_fits = given(&toleration.key).is_none_or(|k| k == *key);
    let effect_fits = given(&toleration.effect).is_none_or(|e| e == *effect);
    let exists = toleration.operator.as_deref() == Some("Exists");
    key_fits && effect_fits && (exists || toleration.value.as_deref().unwrap_or_default() == value)
}

fn refuse_os(pod: &Pod) -> Option<(&'static str, String)> {
    let os = pod.spec().os.as_ref()?;
    (os.name != "linux").then(|| {
        ("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn pod(uid: &str, spec: serde_json::Value) -> PodRef {
        Arc::new(
            serde_json::from_value(serde_json::json!({"metadata": {"name": uid, "uid": uid}, "spec": spec}))
                .unwrap(),
        )
    }

    fn admission() -> Admission {
        let admission = Admission::default();
        admission.set_facts(NodeFacts {
            labels: BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]),
            allocatable: [("pods", "2"), ("cpu", "1"), ("memory", "1Gi")]
                .map(|(k, v)| (k.to_owned(), v.parse().unwrap()))
                .into(),
            taints: vec![("bad".to_owned(), "x".to_owned(), "NoExecute".to_owned())],
        });
        admission
    }

    #[test]
    fn rules_refuse_by_name() {
        let tolerant = serde_json::json!([{"operator": "Exists"}]);
        let web = |extra: serde_json::Value| {
            let mut spec = serde_json::json!({"tolerations": tolerant, "containers": [{"name": "c"}]});
            for (k, v) in extra.as_object().unwrap() {
                spec[k] = v.clone();
            }
            spec
        };
        let port = serde_json::json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]});
        let cpu = |amount: &str| serde_json::json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": amount}}}]});
        let a = admission();
        let one = [pod("o", web(port.clone()))];
        let reason =
            |spec: serde_json::Value, others: &[PodRef]| a.refuse(&pod("p", spec), others).map(|r| r.0);
        assert_eq!(reason(web(serde_json::json!({})), &one), None);
        assert_eq!(reason(web(port), &one), Some("NodePorts"));
        assert_eq!(reason(web(cpu("2")), &one), Some("OutOfcpu"));
        assert_eq!(
            reason(web(serde_json::json!({"nodeSelector": {"disk": "hdd"}})), &one),
            Some("NodeAffinity")
        );
        assert_eq!(reason(serde_json::json!({"containers": []}), &one), Some("TaintToleration"));
        assert_eq!(
            reason(web(serde_json::json!({"os": {"name": "windows"}})), &one),
            Some("PodOSNotSupported")
        );
        let sysctl = |name: &str| {
            web(serde_json::json!({"securityContext": {"sysctls": [{"name": name, "value": "1"}]}}))
        };
        assert_eq!(reason(sysctl("kernel.msgmax"), &one), Some("SysctlForbidden"));
        assert_eq!(reason(sysctl("kernel.shm_rmid_forced"), &one), None);
        let two = [pod("a", web(serde_json::json!({}))), pod("b", web(serde_json::json!({})))];
        assert_eq!(reason(web(serde_json::json!({})), &two), Some("OutOfpods"));
    }

    #[derive(Debug)]
    struct Relabelled(Weak<Admission>);

    impl NodeFetch for Relabelled {
        fn fetch(&self) -> BoxFuture<'_, ()> {
            Box::pin(async {
                let rules = self.0.upgrade().unwrap();
                let mut facts = rules.facts.read().clone();
                facts.labels.insert("disk".to_owned(), "hdd".to_owned());
                rules.set_facts(facts);
            })
        }
    }

    #[tokio::test]
    async fn labels_may_be_newer_than_known() {
        let rules = Arc::new(admission());
        let server: Arc<dyn NodeFetch> = Arc::new(Relabelled(Arc::downgrade(&rules)));
        rules.set_fetch(Arc::downgrade(&server));
        let spec = serde_json::json!({
            "tolerations": [{"operator": "Exists"}],
            "nodeSelector": {"disk": "hdd"},
            "containers": [{"name": "c"}],
        });
        let wish = pod("p", spec);
        assert_eq!(rules.refuse(&wish, &[]).map(|r| r.0), Some(NODE_AFFINITY));
        rules.refresh().await;
        assert_eq!(rules.refuse(&wish, &[]), None);
    }
}
