//! What a request asks for, read from its method, path and query (`k8s.io/apiserver/pkg/endpoints/request`).

use percent_encoding::percent_decode_str;

mod body;
mod options;
mod query;

pub(crate) use body::RequestBody;
pub(crate) use options::{WriteOptions, delete_options, list_options};
pub(crate) use query::Query;

/// What the path and method name: a resource, or a path outside the API.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RequestInfo {
    /// Whether the path names a resource.
    pub is_resource: bool,
    /// The decoded path.
    pub path: String,
    /// An API verb (`get`, `list`, …) for resources, else the lower-case method.
    pub verb: String,
    /// The group; empty for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The namespace; empty at the cluster scope.
    pub namespace: String,
    /// The plural.
    pub resource: String,
    /// The subresource; empty for the object itself.
    pub subresource: String,
    /// The object's name; empty for collections.
    pub name: String,
    /// What follows the subresource, as `proxy` uses it.
    pub rest: Vec<String>,
}

impl RequestInfo {
    /// Reads method, path and query.
    pub(crate) fn parse(method: &http::Method, raw_path: &str, query: &Query) -> Self {
        let path = percent_decode_str(raw_path).decode_utf8_lossy().into_owned();
        let mut info = Self { path, verb: method.as_str().to_ascii_lowercase(), ..Self::default() };
        let decoded: Vec<String> = raw_path
            .trim_matches('/')
            .split('/')
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let mut parts: &[String] = &decoded;
        if parts.len() < 3 {
            return info;
        }
        match parts[0].as_str() {
            "api" => parts = &parts[1..],
            "apis" if parts.len() >= 4 => {
                info.group.clone_from(&parts[1]);
                parts = &parts[2..];
            }
            _ => return info,
        }
        info.is_resource = true;
        info.version.clone_from(&parts[0]);
        info.read_resource(method, &parts[1..]);
        info.refine_verb(query);
        info
    }

    /// `[watch/][namespaces/<ns>/]<resource>[/<name>[/<subresource>[/…]]]`.
    fn read_resource(&mut self, method: &http::Method, mut parts: &[String]) {
        self.verb = verb_of(method).to_owned();
        if parts.len() >= 2 && (parts[0] == "watch" || parts[0] == "proxy") {
            self.verb.clone_from(&parts[0]);
            parts = &parts[1..];
        }
        if parts[0] == "namespaces" && parts.len() > 1 {
            self.namespace.clone_from(&parts[1]);
            if parts.len() > 2 && parts[2] != "status" && parts[2] != "finalize" {
                parts = &parts[2..];
            }
        }
        let part = |at: usize| parts.get(at).cloned().unwrap_or_default();
        self.resource = part(0);
        self.name = part(1);
        if self.verb != "proxy" {
            self.subresource = part(2);
        }
        self.rest = parts.get(3..).unwrap_or_default().to_vec();
    }

    fn refine_verb(&mut self, query: &Query) {
        if !self.name.is_empty() {
            return;
        }
        match self.verb.as_str() {
            "get" => {
                self.verb = if query.flag("watch") { "watch" } else { "list" }.to_owned();
                let selector =
                    query.get("fieldSelector").and_then(|s| copepod_api::FieldSelector::parse(s).ok());
                if let Some(name) = selector.as_ref().and_then(|s| s.required("metadata.name"))
                    && copepod_api::names::path_segment(name).is_empty()
                {
                    name.clone_into(&mut self.name);
                }
            }
            "delete" => "deletecollection".clone_into(&mut self.verb),
            _ => {}
        }
    }

    /// Whether the request may stay open for as long as the client likes.
    pub(crate) fn long_running(&self) -> bool {
        self.verb == "watch"
            || matches!(self.subresource.as_str(), "proxy" | "log" | "exec" | "attach" | "portforward")
    }
}

fn verb_of(method: &http::Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: &str, uri: &str) -> RequestInfo {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        RequestInfo::parse(&method.parse().unwrap(), path, &Query::parse(query))
    }

    #[test]
    fn resources_of_both_prefixes() {
        let pods = info("GET", "/api/v1/namespaces/default/pods");
        assert_eq!(
            (pods.verb.as_str(), pods.namespace.as_str(), pods.resource.as_str()),
            ("list", "default", "pods")
        );
        let log = info("GET", "/api/v1/namespaces/a/pods/x/log");
        assert_eq!((log.verb.as_str(), log.subresource.as_str(), log.name.as_str()), ("get", "log", "x"));
        let scale = info("PATCH", "/apis/apps/v1/namespaces/a/deployments/web/scale");
        assert_eq!(
            (scale.group.as_str(), scale.verb.as_str(), scale.subresource.as_str()),
            ("apps", "patch", "scale")
        );
        let namespace = info("PUT", "/api/v1/namespaces/a/finalize");
        assert_eq!((namespace.resource.as_str(), namespace.name.as_str()), ("namespaces", "a"));
        assert_eq!(namespace.subresource, "finalize");
        assert_eq!(info("GET", "/api/v1/watch/pods").verb, "watch");
        assert_eq!(info("GET", "/api/v1/pods?watch=1").verb, "watch");
        assert_eq!(info("GET", "/api/v1/pods?watch=false").verb, "list");
        assert_eq!(info("DELETE", "/api/v1/namespaces/a/pods").verb, "deletecollection");
        let one = info("GET", "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx&watch=true");
        assert_eq!((one.verb.as_str(), one.name.as_str()), ("watch", "x"));
        let proxy = info("POST", "/api/v1/namespaces/a/services/https:web:http/proxy/a%2Fb/c");
        assert_eq!(proxy.rest, ["a/b", "c"]);
        assert_eq!(proxy.name, "https:web:http");
    }

    #[test]
    fn paths_outside_the_api() {
        for path in
            ["/", "/api", "/api/v1", "/apis/apps", "/apis/apps/v1", "/healthz", "/openapi/v3/apis/apps/v1"]
        {
            let other = info("GET", path);
            assert!(!other.is_resource, "{path}");
            assert_eq!(other.verb, "get");
        }
    }
}
