//! Where a pod's streams are: the container, the node, the kubelet's path
//! (`k8s.io/kubernetes/pkg/registry/core/pod/strategy.go`).

use copepod_api::{
    ApiError, ApiResult, FieldError, FieldErrors, FieldPath, GroupResource, GroupVersionKind, Reason, meta,
};
use form_urlencoded::Serializer;
use serde_json::Value;

use super::Destination;
use crate::request::Query;
use crate::server::{Call, Server};

/// Options of the API and what the kubelet calls them.
const STREAMS: &[(&str, &str)] =
    &[("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")];
/// Options of logs, passed on as they are.
const LOG_OPTIONS: &[&str] =
    &["follow", "previous", "timestamps", "sinceSeconds", "sinceTime", "tailLines", "limitBytes", "stream"];

impl Server {
    async fn pod(&self, call: &Call, name: &str) -> ApiResult<Value> {
        let pod = self.reader.get("", "pods", call.namespace(), name).await;
        pod.ok_or_else(|| ApiError::not_found(&GroupResource::new("", "pods"), name))
    }

    /// The kubelet's log endpoint; `None` while the pod has no node.
    pub(super) async fn log_destination(&self, call: &Call) -> ApiResult<Option<Destination>> {
        check_log_options(&call.query, &call.info.name)?;
        let pod = self.pod(call, &call.info.name).await?;
        let container = container(&pod, call.query.text("container"))?;
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if node.is_empty() {
            return Ok(None);
        }
        let (ns, name) = (meta::namespace(&pod), meta::name(&pod));
        let path = with_query(format!("/containerLogs/{ns}/{name}/{container}"), &log_query(&call.query));
        // Of a log's node upstream speaks as of a pod.
        let missing = |error: ApiError| match error.is(Reason::NotFound) {
            true => ApiError::not_found(&GroupResource::new("", "pods"), node),
            false => error,
        };
        self.kubelet(node, path).await.map(Some).map_err(missing)
    }

    /// The kubelet's exec, attach or port-forward endpoint.
    pub(super) async fn stream_destination(&self, call: &Call) -> ApiResult<Destination> {
        let pod = self.pod(call, &call.info.name).await?;
        let (ns, name) = (meta::namespace(&pod), meta::name(&pod));
        let sub = call.info.subresource.as_str();
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        if sub != "portforward" && matches!(phase, "Succeeded" | "Failed") {
            let why = format!("cannot {sub} into a container in a completed pod; current phase is {phase}");
            return Err(ApiError::bad_request(why));
        }
        let path = if sub == "portforward" {
            format!("/portForward/{ns}/{name}")
        } else {
            format!("/{sub}/{ns}/{name}/{}", container(&pod, call.query.text("container"))?)
        };
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if node.is_empty() {
            return Err(ApiError::bad_request(format!("pod {name} does not have a host assigned")));
        }
        self.kubelet(node, with_query(path, &stream_query(sub, &call.query))).await
    }

    async fn kubelet(&self, node: &str, path_and_query: String) -> ApiResult<Destination> {
        let object = self.reader.get("", "nodes", None, node).await;
        let object = object.ok_or_else(|| ApiError::not_found(&GroupResource::new("", "nodes"), node))?;
        let (host, port) = self.kubelets.address(&object).map_err(ApiError::internal)?;
        Ok(Destination { tls: true, kubelet: true, host, port, path_and_query, prefix: String::new() })
    }

    /// `nodes/<name>[:port]/proxy/…`: the kubelet, or another port of the node.
    pub(super) async fn node_destination(&self, call: &Call) -> ApiResult<Destination> {
        let (scheme, name, port) = super::endpoint::split(&call.info.name)?;
        let mut destination = self.kubelet(name, super::endpoint::rest(call)).await?;
        destination.prefix = super::endpoint::prefix(call);
        if let Some(port) = port.parse().ok().filter(|p| *p != destination.port) {
            destination.port = port;
            destination.kubelet = false;
            destination.tls = scheme == "https";
        }
        Ok(destination)
    }
}

fn with_query(path: String, query: &str) -> String {
    if query.is_empty() { path } else { format!("{path}?{query}") }
}

fn log_query(query: &Query) -> String {
    let mut out = Serializer::new(String::new());
    for key in LOG_OPTIONS {
        match (*key, query.text(key)) {
            (_, "") | ("follow" | "previous" | "timestamps", "false" | "0") => {}
            (key, value) => drop(out.append_pair(key, value)),
        }
    }
    out.finish()
}

/// The options of exec, attach and port-forward as the kubelet names them.
fn stream_query(sub: &str, query: &Query) -> String {
    let mut out = Serializer::new(String::new());
    if sub == "portforward" {
        for port in query.all("ports").flat_map(|p| p.split(',')) {
            out.append_pair("port", port);
        }
        return out.finish();
    }
    for (ours, theirs) in STREAMS {
        if query.flag(ours) {
            out.append_pair(theirs, "1");
        }
    }
    for command in query.all("command").filter(|_| sub == "exec") {
        out.append_pair("command", command);
    }
    out.finish()
}

fn check_log_options(query: &Query, pod: &str) -> ApiResult<()> {
    let mut errors = FieldErrors::new();
    let at = |field: &str| FieldPath::new(field);
    if let Some(lines) = query.int("tailLines")?.filter(|n| *n < 0) {
        errors.push(FieldError::invalid(&at("tailLines"), lines, "must be greater than or equal to 0"));
    }
    if let Some(bytes) = query.int("limitBytes")?.filter(|n| *n < 1) {
        errors.push(FieldError::invalid(&at("limitBytes"), bytes, "must be greater than 0"));
    }
    match (query.int("sinceSeconds")?, query.get("sinceTime").filter(|time| !time.is_empty())) {
        (Some(_), Some(_)) => {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden(&at("[]"), why));
        }
        (Some(seconds), None) if seconds < 1 => {
            errors.push(FieldError::invalid(&at("sinceSeconds"), seconds, "must be greater than 0"));
        }
        _ => {}
    }
    if !query.text("stream").is_empty() {
        errors.push(FieldError::forbidden(&at("stream"), "may not be specified"));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&GroupVersionKind::new("", "v1", "PodLogOptions"), pod, &errors))
}

/// The container meant: the one named, the only one, or the one the pod marks as default.
fn container(pod: &Value, wanted: &str) -> ApiResult<String> {
    let names = |list: &str| -> Vec<String> {
        let containers = pod["spec"][list].as_array().into_iter().flatten();
        containers.filter_map(|c| c["name"].as_str()).map(str::to_owned).collect()
    };
    let (containers, init, ephemeral) =
        (names("containers"), names("initContainers"), names("ephemeralContainers"));
    let name = meta::name(pod);
    if !wanted.is_empty() {
        let known = [&containers, &init, &ephemeral].iter().any(|list| list.iter().any(|c| c == wanted));
        return if known {
            Ok(wanted.to_owned())
        } else {
            Err(ApiError::bad_request(format!("container {wanted} is not valid for pod {name}")))
        };
    }
    let marked = meta::annotation(pod, "kubectl.kubernetes.io/default-container");
    if let Some(marked) = marked.filter(|m| containers.iter().any(|c| c == m)) {
        return Ok(marked.to_owned());
    }
    if let ([only], []) = (containers.as_slice(), ephemeral.as_slice()) {
        return Ok(only.clone());
    }
    let mut why = format!(
        "a container name must be specified for pod {name}, choose one of: [{}]",
        containers.join(" ")
    );
    if !init.is_empty() {
        why.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
    }
    if !ephemeral.is_empty() {
        why.push_str(&format!(" or one of the ephemeral containers: [{}]", ephemeral.join(" ")));
    }
    Err(ApiError::bad_request(why))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_for_the_kubelet() {
        let exec =
            Query::parse("command=sh&command=-c&command=a%20b&stdin=true&stdout=true&tty=false&container=c");
        assert_eq!(stream_query("exec", &exec), "input=1&output=1&command=sh&command=-c&command=a+b");
        assert_eq!(stream_query("portforward", &Query::parse("ports=80&ports=443")), "port=80&port=443");
        assert_eq!(
            log_query(&Query::parse("follow=true&previous=false&tailLines=5")),
            "follow=true&tailLines=5"
        );
    }

    #[test]
    fn which_container() {
        let one = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}});
        assert_eq!(container(&one, "").unwrap(), "a");
        assert_eq!(container(&one, "i").unwrap(), "i");
        assert_eq!(container(&one, "x").unwrap_err().to_string(), "container x is not valid for pod p");
        let two = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
        let error = container(&two, "").unwrap_err();
        assert_eq!(error.to_string(), "a container name must be specified for pod p, choose one of: [a b]");
    }
}
