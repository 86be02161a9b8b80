//! Health check node ports: one small server for each Service with `externalTrafficPolicy: Local`, where a load
//! balancer asks whether this node has endpoints.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use copepod_client::{EventKind, ObjectRef, Recorder};
use copepod_netcalc::{Change, ServiceName};
use copepod_supervisor::Task;
use copepod_telemetry::{PlainResponse, serve_plain};
use serde_json::json;
use tokio::net::TcpListener;

use crate::health::Health;

#[derive(Debug)]
struct Server {
    port: u16,
    endpoints: Arc<AtomicUsize>,
    task: Option<Task>,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// All servers of this node.
#[derive(Debug)]
pub(crate) struct NodeHealth {
    health: Arc<Health>,
    recorder: Recorder,
    servers: BTreeMap<ServiceName, Server>,
}

/// The answer for `count` ready local endpoints.
pub(crate) fn answer(service: &ServiceName, count: usize, proxy_healthy: bool) -> PlainResponse {
    let status = if count > 0 && proxy_healthy { 200 } else { 503 };
    let body = json!({
        "service": { "namespace": &*service.namespace, "name": &*service.name },
        "localEndpoints": count,
        "serviceProxyHealthy": proxy_healthy,
    });
    let mut response = PlainResponse::json(status, body.to_string());
    response.headers.push(("X-Load-Balancing-Endpoint-Weight", count.to_string()));
    response
}

impl NodeHealth {
    pub(crate) fn new(health: Arc<Health>, recorder: Recorder) -> Self {
        Self { health, recorder, servers: BTreeMap::new() }
    }

    /// Follows `changes`.
    pub(crate) async fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            let wanted = change.ports.iter().filter_map(|p| p.health_check).max_by_key(|(_, count)| *count);
            match wanted {
                None => drop(self.servers.remove(&change.service)),
                Some((port, count)) => match self.servers.get(&change.service) {
                    Some(server) if server.port == port => server.endpoints.store(count, Ordering::Relaxed),
                    _ => {
                        self.servers.remove(&change.service);
                        let server = self.open(&change.service, port, count).await;
                        self.servers.insert(change.service.clone(), server);
                    }
                },
            }
        }
    }

    async fn open(&self, service: &ServiceName, port: u16, count: usize) -> Server {
        let endpoints = Arc::new(AtomicUsize::new(count));
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let task = match TcpListener::bind(address).await {
            Ok(listener) => {
                let (name, health, endpoints) =
                    (service.clone(), Arc::clone(&self.health), Arc::clone(&endpoints));
                let reply = move |_: &str| answer(&name, endpoints.load(Ordering::Relaxed), health.is_live());
                Some(copepod_supervisor::spawn("node-port-health", serve_plain(listener, reply)))
            }
            Err(error) => {
                tracing::error!(%service, port, %error, "cannot serve the health check node port");
                let object = ObjectRef {
                    kind: "Service".into(),
                    api_version: "v1".into(),
                    namespace: service.namespace.to_string(),
                    name: service.name.to_string(),
                    ..ObjectRef::default()
                };
                let message =
                    format!("node {port} failed to start healthcheck {service:?} on port {port}: {error}");
                self.recorder.event(object, EventKind::Warning, "FailedToStartServiceHealthcheck", message);
                None
            }
        };
        Server { port, endpoints, task }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_endpoints_and_a_healthy_proxy_are_a_yes() {
        let service = ServiceName::new("ns", "web");
        assert_eq!(
            [(2, true), (0, true), (2, false)].map(|(n, ok)| answer(&service, n, ok).status),
            [200, 503, 503]
        );
        let yes = answer(&service, 2, true);
        assert!(
            yes.body.contains(r#""localEndpoints":2"#) && yes.body.contains(r#""name":"web""#),
            "{}",
            yes.body
        );
        assert!(yes.headers.contains(&("X-Load-Balancing-Endpoint-Weight", "2".to_owned())));
    }
}
