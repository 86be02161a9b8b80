//! The options of a connection as the object that admission sees.

use serde_json::{Map, Value, json};

use crate::request::{Query, RequestInfo};

/// The kind of the options.
pub(super) fn kind(info: &RequestInfo) -> &'static str {
    match (info.resource.as_str(), info.subresource.as_str()) {
        (_, "exec") => "PodExecOptions",
        (_, "attach") => "PodAttachOptions",
        (_, "portforward") => "PodPortForwardOptions",
        ("services", _) => "ServiceProxyOptions",
        ("nodes", _) => "NodeProxyOptions",
        _ => "PodProxyOptions",
    }
}

/// The options, from path and query.
pub(super) fn object(info: &RequestInfo, query: &Query) -> Value {
    let mut options = Map::new();
    options.insert("kind".to_owned(), kind(info).into());
    options.insert("apiVersion".to_owned(), "v1".into());
    match info.subresource.as_str() {
        "exec" | "attach" => {
            for stream in ["stdin", "stdout", "stderr", "tty"].into_iter().filter(|s| query.flag(s)) {
                options.insert(stream.to_owned(), true.into());
            }
            let container = query.text("container");
            if !container.is_empty() {
                options.insert("container".to_owned(), container.into());
            }
            if info.subresource == "exec" {
                options.insert("command".to_owned(), json!(query.all("command").collect::<Vec<_>>()));
            }
        }
        "portforward" => {
            let ports = query.all("ports").flat_map(|p| p.split(','));
            let ports: Vec<i32> = ports.filter_map(|p| p.parse().ok()).collect();
            if !ports.is_empty() {
                options.insert("ports".to_owned(), json!(ports));
            }
        }
        _ => {
            let path =
                if info.rest.is_empty() { "/".to_owned() } else { format!("/{}", info.rest.join("/")) };
            options.insert("path".to_owned(), path.into());
        }
    }
    Value::Object(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_webhook_sees() {
        let at = |path: &str, query: &str| {
            let query = Query::parse(query);
            object(&RequestInfo::parse(&http::Method::GET, path, &query), &query)
        };
        assert_eq!(
            at("/api/v1/namespaces/a/pods/p/attach", "container=c&stdin=true&stdout=false"),
            json!({"kind": "PodAttachOptions", "apiVersion": "v1", "container": "c", "stdin": true})
        );
        assert_eq!(
            at("/api/v1/namespaces/a/pods/p/exec", "command=sh&command=-c")["command"],
            json!(["sh", "-c"])
        );
        assert_eq!(at("/api/v1/namespaces/a/services/s/proxy/x/y", "")["path"], "/x/y");
    }
}
