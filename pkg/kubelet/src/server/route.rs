//! Paths of the server, and what a caller must be allowed to do to use each.

use std::collections::BTreeMap;

/// The container a path names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Target {
    pub(super) namespace: String,
    pub(super) pod: String,
    /// The UID in the path, when there is one.
    pub(super) uid: Option<String>,
    /// Empty for a port-forward.
    pub(super) container: String,
}

/// What a path asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    Healthz,
    SyncLoop,
    Ping,
    Pods,
    RunningPods,
    Logs(Target),
    Exec(Target),
    Attach(Target),
    Run(Target),
    PortForward(Target),
    Summary,
    Metrics,
    MetricsCadvisor,
    MetricsResource,
    Configz,
    Checkpoint(Target),
}

impl Route {
    /// The route of a path; `None` is 404.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        Some(match parts.as_slice() {
            ["healthz"] => Self::Healthz,
            ["healthz", "ping" | "log"] => Self::Ping,
            ["healthz", "syncloop"] => Self::SyncLoop,
            ["pods"] => Self::Pods,
            ["runningpods"] => Self::RunningPods,
            ["containerLogs", namespace, pod, container] => {
                Self::Logs(target(namespace, pod, None, container))
            }
            ["stats" | "stats/summary"] | ["stats", "summary"] => Self::Summary,
            ["metrics"] => Self::Metrics,
            ["metrics", "cadvisor"] => Self::MetricsCadvisor,
            ["metrics", "resource"] => Self::MetricsResource,
            ["configz"] => Self::Configz,
            ["checkpoint", namespace, pod, container] => {
                Self::Checkpoint(target(namespace, pod, None, container))
            }
            ["portForward", namespace, pod] => Self::PortForward(target(namespace, pod, None, "")),
            ["portForward", namespace, pod, uid] => Self::PortForward(target(namespace, pod, Some(uid), "")),
            [verb, namespace, pod, container] => Self::stream(verb, target(namespace, pod, None, container))?,
            [verb, namespace, pod, uid, container] => {
                Self::stream(verb, target(namespace, pod, Some(uid), container))?
            }
            _ => return None,
        })
    }

    fn stream(verb: &str, target: Target) -> Option<Self> {
        match verb {
            "exec" => Some(Self::Exec(target)),
            "attach" => Some(Self::Attach(target)),
            "run" => Some(Self::Run(target)),
            _ => None,
        }
    }

    /// The subresources of `nodes` any of which opens this route, most specific first.
    pub(super) fn subresources(&self) -> &'static [&'static str] {
        match self {
            Self::Healthz | Self::SyncLoop | Self::Ping => &["healthz", "proxy"],
            Self::Pods | Self::RunningPods => &["pods", "proxy"],
            Self::Configz => &["configz", "proxy"],
            Self::Summary => &["stats"],
            Self::Metrics | Self::MetricsCadvisor | Self::MetricsResource => &["metrics"],
            Self::Checkpoint(_) => &["checkpoint"],
            Self::Logs(_) | Self::Exec(_) | Self::Attach(_) | Self::Run(_) | Self::PortForward(_) => {
                &["proxy"]
            }
        }
    }
}

fn target(namespace: &str, pod: &str, uid: Option<&&str>, container: &str) -> Target {
    Target {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        uid: uid.map(|u| (*u).to_owned()),
        container: container.to_owned(),
    }
}

/// The verb of a method, as an authorizer knows it.
pub(super) fn verb(method: &http::Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "get",
    }
}

/// The query of a request: each name with all its values.
#[derive(Debug, Default)]
pub(super) struct Query(BTreeMap<String, Vec<String>>);

impl Query {
    pub(super) fn parse(query: Option<&str>) -> Self {
        let mut values = BTreeMap::<String, Vec<String>>::new();
        for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            values.entry(key.into_owned()).or_default().push(value.into_owned());
        }
        Self(values)
    }

    pub(super) fn first(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.first().map(String::as_str).filter(|v| !v.is_empty())
    }

    pub(super) fn all(&self, key: &str) -> Vec<String> {
        self.0.get(key).cloned().unwrap_or_default()
    }

    /// Whether a flag is set under any of its names.
    pub(super) fn flag(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| matches!(self.first(key), Some("1" | "true")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_their_rights() {
        let logs = Route::parse("/containerLogs/kube-system/dns/coredns").unwrap();
        assert_eq!(logs, Route::Logs(target("kube-system", "dns", None, "coredns")));
        assert_eq!(Route::parse("/exec/d/p/u1/c"), Some(Route::Exec(target("d", "p", Some(&"u1"), "c"))));
        assert_eq!(Route::parse("/portForward/d/p"), Some(Route::PortForward(target("d", "p", None, ""))));
        assert_eq!(Route::parse("/stats/summary").unwrap().subresources(), ["stats"]);
        assert_eq!(Route::parse("/pods/").unwrap().subresources(), ["pods", "proxy"]);
        for none in ["/", "/nonsense", "/exec/d/p", "/other/d/p/c"] {
            assert_eq!(Route::parse(none), None, "{none}");
        }
    }

    #[test]
    fn queries_keep_order_and_know_both_names_of_a_flag() {
        let query = Query::parse(Some("command=sh&command=-c&command=a+b&input=1&tty=false"));
        assert_eq!(query.all("command"), ["sh", "-c", "a b"]);
        assert!(query.flag(&["stdin", "input"]));
        assert!(!query.flag(&["tty"]));
    }
}
