//! Where `pods/<name>/proxy` and `services/<name>/proxy` lead: `[scheme:]name[:port]`.

use copepod_api::{ApiError, ApiResult, GroupResource, Reason};
use rand::RngExt as _;
use serde_json::Value;

use super::Destination;
use crate::server::{Call, Server};

/// Splits `[scheme:]name[:port]`.
pub(super) fn split(text: &str) -> ApiResult<(&str, &str, &str)> {
    let parts: Vec<&str> = text.split(':').collect();
    let (scheme, name, port) = match parts.as_slice() {
        [name] => ("", *name, ""),
        [name, port] => ("", *name, *port),
        [scheme, name, port] => (*scheme, *name, *port),
        _ => {
            return Err(ApiError::bad_request(format!(
                "invalid service request {}",
                copepod_api::field::quote(text)
            )));
        }
    };
    if !matches!(scheme, "" | "http" | "https") || name.is_empty() {
        return Err(ApiError::bad_request(format!(
            "invalid service request {}",
            copepod_api::field::quote(text)
        )));
    }
    Ok((scheme, name, port))
}

/// What follows `/proxy` in the path, with the query, as the client sent it.
pub(super) fn rest(call: &Call) -> String {
    let path = call.parts.uri.path();
    let after = path.split_once("/proxy/").map_or("", |(_, rest)| rest);
    match call.parts.uri.query() {
        Some(query) => format!("/{after}?{query}"),
        None => format!("/{after}"),
    }
}

/// The path up to and including `/proxy`, for redirects that come back.
pub(super) fn prefix(call: &Call) -> String {
    let path = call.parts.uri.path();
    path.split_once("/proxy/").map_or_else(|| path.to_owned(), |(before, _)| format!("{before}/proxy"))
}

fn unavailable(why: String) -> ApiError {
    ApiError::new(Reason::ServiceUnavailable, why)
}

impl Server {
    /// A pod's own address.
    pub(super) async fn pod_destination(&self, call: &Call) -> ApiResult<Destination> {
        let (scheme, name, port) = split(&call.info.name)?;
        let pod = self.reader.get("", "pods", call.namespace(), name).await;
        let pod = pod.ok_or_else(|| ApiError::not_found(&GroupResource::new("", "pods"), name))?;
        let host = pod["status"]["podIP"].as_str().filter(|ip| !ip.is_empty());
        let host = host.ok_or_else(|| ApiError::bad_request("address not allowed"))?.to_owned();
        let ports = || {
            let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
            containers.flat_map(|c| c["ports"].as_array().into_iter().flatten())
        };
        let port = match port {
            "" => ports()
                .next()
                .and_then(|p| p["containerPort"].as_u64())
                .and_then(|p| u16::try_from(p).ok())
                .unwrap_or(80),
            number => number.parse().map_err(|_| ApiError::bad_request(format!("invalid port {number}")))?,
        };
        let (path_and_query, prefix) = (rest(call), prefix(call));
        Ok(Destination { tls: scheme == "https", kubelet: false, host, port, path_and_query, prefix })
    }

    /// One ready endpoint of a service.
    pub(super) async fn service_destination(&self, call: &Call) -> ApiResult<Destination> {
        let (scheme, name, wanted) = split(&call.info.name)?;
        let service = self.reader.get("", "services", call.namespace(), name).await;
        let service =
            service.ok_or_else(|| ApiError::not_found(&GroupResource::new("", "services"), name))?;
        let port_name = match wanted.parse::<u64>() {
            Ok(number) => {
                let ports = service["spec"]["ports"].as_array().into_iter().flatten();
                let port = ports.into_iter().find(|p| p["port"].as_u64() == Some(number));
                let port = port.ok_or_else(|| {
                    unavailable(format!(
                        "no service port {number} found for service {}",
                        copepod_api::field::quote(name)
                    ))
                })?;
                port["name"].as_str().unwrap_or_default().to_owned()
            }
            Err(_) => wanted.to_owned(),
        };
        let slices = self.reader.list("discovery.k8s.io", "endpointslices", call.namespace(), "").await;
        let own = slices
            .iter()
            .filter(|s| s["metadata"]["labels"]["kubernetes.io/service-name"].as_str() == Some(name));
        let found: Vec<(String, u16)> =
            own.flat_map(|slice| ready(slice, &port_name, wanted.is_empty())).collect();
        if found.is_empty() {
            return Err(unavailable(format!(
                "no endpoints available for service {}",
                copepod_api::field::quote(&call.info.name)
            )));
        }
        let (host, port) = found[rand::rng().random_range(0..found.len())].clone();
        let (path_and_query, prefix) = (rest(call), prefix(call));
        Ok(Destination { tls: scheme == "https", kubelet: false, host, port, path_and_query, prefix })
    }
}

/// The ready addresses of a slice with the port of this name (any port when `any`).
fn ready(slice: &Value, port_name: &str, any: bool) -> Vec<(String, u16)> {
    let ports = slice["ports"].as_array().into_iter().flatten();
    let port = ports
        .filter(|p| any || p["name"].as_str().unwrap_or_default() == port_name)
        .find_map(|p| p["port"].as_u64().and_then(|p| u16::try_from(p).ok()));
    let Some(port) = port else { return Vec::new() };
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    endpoints
        .filter(|e| e["conditions"]["ready"].as_bool() != Some(false))
        .filter_map(|e| e["addresses"].get(0).and_then(Value::as_str))
        .map(|address| (address.to_owned(), port))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_with_schemes_and_ports() {
        assert_eq!(split("web").unwrap(), ("", "web", ""));
        assert_eq!(split("web:http").unwrap(), ("", "web", "http"));
        assert_eq!(split("https:web:443").unwrap(), ("https", "web", "443"));
        assert!(split("ftp:web:21").is_err() && split("a:b:c:d").is_err() && split(":80").is_err());
    }

    #[test]
    fn ready_endpoints_by_port() {
        let slice = json!({"ports": [{"name": "http", "port": 8080}], "endpoints": [
            {"addresses": ["10.0.0.1"], "conditions": {"ready": true}},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": false}}, {"addresses": ["10.0.0.3"]}]});
        assert_eq!(
            ready(&slice, "http", false),
            [("10.0.0.1".to_owned(), 8080), ("10.0.0.3".to_owned(), 8080)]
        );
        assert!(ready(&slice, "other", false).is_empty());
        assert_eq!(ready(&slice, "", true).len(), 2);
    }
}
