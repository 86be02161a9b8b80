//! Where a call goes: `clientConfig` of webhooks, `spec.service` of API services.

use base64::Engine as _;
use copepod_api::field::quote;
use rand::seq::SliceRandom as _;
use serde_json::Value;

use crate::reader::Reader;

/// What an object says about the server to call. Equal endpoints share connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Endpoint {
    /// Authorities in PEM; empty for those of the system.
    pub bundle: Vec<u8>,
    /// Whether the server's certificate is not verified (`insecureSkipTLSVerify`).
    pub insecure: bool,
    /// The server.
    pub target: Target,
}

/// A server by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// A service of the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The port of the service.
        port: u16,
        /// The path, with its leading slash or empty.
        path: String,
    },
    /// Any host.
    Url {
        /// Host and port as written, for the `Host` header and error texts.
        authority: String,
        /// The host without brackets.
        host: String,
        /// The port.
        port: u16,
        /// The path, with its leading slash or empty.
        path: String,
    },
}

/// A place that can be dialled.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// An address or a name.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Endpoint {
    /// Reads a `clientConfig` (`url` or `service`, `caBundle`).
    ///
    /// # Errors
    /// A bundle that is not base64, a URL that is none.
    pub(crate) fn of_webhook(config: &Value) -> Result<Self, String> {
        let bundle = bundle(config)?;
        if let Some(service) = config.get("service").filter(|s| !s.is_null()) {
            return Ok(Self { bundle, insecure: false, target: Target::service(service, "") });
        }
        let url = config.get("url").and_then(Value::as_str);
        let url = url.ok_or("webhook configuration must have either service or URL")?;
        Ok(Self { bundle, insecure: false, target: Target::url(url)? })
    }

    /// Reads the `spec` of an APIService that is served elsewhere.
    ///
    /// # Errors
    /// A bundle that is not base64.
    pub(crate) fn of_service(spec: &Value) -> Result<Self, String> {
        let insecure = spec.get("insecureSkipTLSVerify").and_then(Value::as_bool).unwrap_or(false);
        let service = spec.get("service").unwrap_or(&Value::Null);
        Ok(Self { bundle: bundle(spec)?, insecure, target: Target::service(service, "") })
    }

    /// The name in the server's certificate.
    pub(crate) fn server_name(&self) -> String {
        match &self.target {
            Target::Service { namespace, name, .. } => format!("{name}.{namespace}.svc"),
            Target::Url { host, .. } => host.clone(),
        }
    }

    /// Host and port as the `Host` header has them.
    pub(crate) fn authority(&self) -> String {
        match &self.target {
            Target::Service { port, .. } => format!("{}:{port}", self.server_name()),
            Target::Url { authority, .. } => authority.clone(),
        }
    }

    /// The whole address, for the request and error texts.
    pub(crate) fn url(&self) -> String {
        let (Target::Service { path, .. } | Target::Url { path, .. }) = &self.target;
        format!("https://{}{path}", self.authority())
    }
}

fn bundle(config: &Value) -> Result<Vec<u8>, String> {
    let text = config.get("caBundle").and_then(Value::as_str).unwrap_or_default();
    let bundle = base64::engine::general_purpose::STANDARD.decode(text).map_err(|e| e.to_string())?;
    // A bundle of white space only is none.
    Ok(if bundle.trim_ascii().is_empty() { Vec::new() } else { bundle })
}

impl Target {
    fn service(service: &Value, path: &str) -> Self {
        let text = |field: &str| service.get(field).and_then(Value::as_str).unwrap_or_default();
        let path = if path.is_empty() { text("path") } else { path };
        let slash = if path.is_empty() || path.starts_with('/') { "" } else { "/" };
        let port = service.get("port").and_then(Value::as_u64).and_then(|p| u16::try_from(p).ok());
        Self::Service {
            namespace: text("namespace").to_owned(),
            name: text("name").to_owned(),
            port: port.filter(|p| *p != 0).unwrap_or(443),
            path: format!("{slash}{path}"),
        }
    }

    fn url(url: &str) -> Result<Self, String> {
        let bad = || format!("Unparsable URL: parse {}: invalid URI for request", quote(url));
        let parsed: http::Uri = url.parse().map_err(|_| bad())?;
        let authority = parsed.authority().ok_or_else(bad)?;
        let path = if parsed.path() == "/" && !url.ends_with('/') { "" } else { parsed.path() };
        Ok(Self::Url {
            authority: authority.as_str().to_owned(),
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(443),
            path: path.to_owned(),
        })
    }
}

/// Finds services.
#[derive(Debug, Clone)]
pub(super) struct Resolver {
    pub(super) reader: Reader,
    /// Whether to pick an endpoint instead of the cluster address.
    pub(super) routing: bool,
}

impl Resolver {
    /// Where to connect for `to`, as things are now.
    pub(super) async fn resolve(&self, to: &Endpoint) -> Result<Place, String> {
        match &to.target {
            Target::Url { host, port, .. } => Ok(Place { host: host.clone(), port: *port }),
            Target::Service { namespace, name, port, .. } => {
                let service = self.reader.get("", "services", Some(namespace), name).await;
                let service = service.ok_or_else(|| format!("service {} not found", quote(name)))?;
                if !self.routing {
                    return cluster_address(&service, name, *port);
                }
                let slices =
                    self.reader.list("discovery.k8s.io", "endpointslices", Some(namespace), "").await;
                endpoint_address(&service, name, *port, &slices)
            }
        }
    }
}

fn service_type(service: &Value) -> &str {
    service.pointer("/spec/type").and_then(Value::as_str).unwrap_or("ClusterIP")
}

fn service_port<'a>(service: &'a Value, name: &str, port: u16) -> Result<&'a Value, String> {
    let ports = service.pointer("/spec/ports").and_then(Value::as_array).into_iter().flatten();
    let found = ports.into_iter().find(|p| p["port"].as_u64() == Some(u64::from(port)));
    found.ok_or_else(|| format!("no service port {port} found for service {}", quote(name)))
}

/// The service's own address: the node's dataplane brings it to an endpoint.
fn cluster_address(service: &Value, name: &str, port: u16) -> Result<Place, String> {
    let text = |path: &str| service.pointer(path).and_then(Value::as_str).unwrap_or_default();
    match service_type(service) {
        "ClusterIP" if text("/spec/clusterIP") == "None" => {
            Err("cannot route to service with ClusterIP \"None\"".to_owned())
        }
        "ClusterIP" | "LoadBalancer" | "NodePort" => {
            service_port(service, name, port)?;
            Ok(Place { host: text("/spec/clusterIP").to_owned(), port })
        }
        "ExternalName" => Ok(Place { host: text("/spec/externalName").to_owned(), port }),
        other => Err(format!("unsupported service type {}", quote(other))),
    }
}

/// A ready endpoint of the service, of its first address family when there is one.
fn endpoint_address(service: &Value, name: &str, port: u16, slices: &[Value]) -> Result<Place, String> {
    if !matches!(service_type(service), "ClusterIP" | "LoadBalancer" | "NodePort") {
        return Err(format!("unsupported service type {}", quote(service_type(service))));
    }
    let port_name = service_port(service, name, port)?["name"].as_str().unwrap_or_default();
    let family = service.pointer("/spec/ipFamilies/0").and_then(Value::as_str).unwrap_or_default();
    let mut own: Vec<&Value> = slices
        .iter()
        .filter(|s| s["metadata"]["labels"]["kubernetes.io/service-name"].as_str() == Some(name))
        .collect();
    own.shuffle(&mut rand::rng());
    own.sort_by_key(|slice| slice["addressType"].as_str() != Some(family));
    let place = own.into_iter().find_map(|slice| ready(slice, port_name));
    place.ok_or_else(|| format!("no endpoints available for service {}", quote(name)))
}

fn ready(slice: &Value, port_name: &str) -> Option<Place> {
    let mut ports = slice["ports"].as_array()?.iter();
    let port = ports.find(|p| p["name"].as_str().unwrap_or_default() == port_name)?;
    let port = port["port"].as_u64().and_then(|p| u16::try_from(p).ok())?;
    let mut endpoints: Vec<&Value> = slice["endpoints"].as_array()?.iter().collect();
    endpoints.shuffle(&mut rand::rng());
    let ready = endpoints.into_iter().find(|e| e["conditions"]["ready"].as_bool() != Some(false))?;
    Some(Place { host: ready["addresses"].get(0)?.as_str()?.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_and_addresses() {
        let config = json!({"service": {"namespace": "w", "name": "hook", "path": "/mutate", "port": 8443}});
        let endpoint = Endpoint::of_webhook(&config).unwrap();
        assert_eq!(endpoint.url(), "https://hook.w.svc:8443/mutate");
        assert_eq!(endpoint.server_name(), "hook.w.svc");
        let plain = json!({"service": {"namespace": "w", "name": "hook", "path": "mutate"}});
        assert_eq!(Endpoint::of_webhook(&plain).unwrap().url(), "https://hook.w.svc:443/mutate");
        let url = Endpoint::of_webhook(&json!({"url": "https://[::1]:9/x", "caBundle": "Cg=="})).unwrap();
        assert_eq!((url.url().as_str(), url.server_name().as_str()), ("https://[::1]:9/x", "::1"));
        assert!(url.bundle.is_empty());
        assert_eq!(Endpoint::of_webhook(&json!({"url": "https://a"})).unwrap().url(), "https://a");
    }

    #[test]
    fn services_by_type() {
        let service = |kind: &str, ip: &str| {
            json!({"spec": {"type": kind, "clusterIP": ip, "externalName": "x.example", "ipFamilies": ["IPv4"],
                "ports": [{"name": "https", "port": 443}]}})
        };
        let at = |host: &str, port| Ok(Place { host: host.to_owned(), port });
        assert_eq!(cluster_address(&service("ClusterIP", "10.0.0.1"), "s", 443), at("10.0.0.1", 443));
        assert_eq!(cluster_address(&service("ExternalName", ""), "s", 443), at("x.example", 443));
        let missing = cluster_address(&service("ClusterIP", "10.0.0.1"), "s", 80).unwrap_err();
        assert_eq!(missing, "no service port 80 found for service \"s\"");
        assert!(cluster_address(&service("ClusterIP", "None"), "s", 443).is_err());
        let slice = json!({"metadata": {"labels": {"kubernetes.io/service-name": "s"}}, "addressType": "IPv4",
            "ports": [{"name": "https", "port": 8443}],
            "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": false}}, {"addresses": ["10.1.0.2"]}]});
        let cluster = service("ClusterIP", "10.0.0.1");
        assert_eq!(endpoint_address(&cluster, "s", 443, &[slice]), at("10.1.0.2", 8443));
        let none = endpoint_address(&cluster, "s", 443, &[]).unwrap_err();
        assert_eq!(none, "no endpoints available for service \"s\"");
    }
}
