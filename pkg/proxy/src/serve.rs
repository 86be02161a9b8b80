//! The proxy's two ports: health for everybody, metrics and mode for this machine.

use std::sync::Arc;

use copepod_telemetry::{Exposition, PlainResponse, serve_plain};
use tokio::net::TcpListener;

use crate::config::Config;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::run::ProxyError;

async fn bind(address: std::net::SocketAddr) -> Result<TcpListener, ProxyError> {
    TcpListener::bind(address).await.map_err(|source| ProxyError::Listen { address, source })
}

/// Opens both ports and serves until the returned tasks are aborted.
pub(crate) async fn start(
    config: &Config,
    health: &Arc<Health>,
    metrics: &Arc<Metrics>,
) -> Result<[copepod_supervisor::Task; 2], ProxyError> {
    let (on_health, on_metrics) = (bind(config.healthz).await?, bind(config.metrics).await?);
    let state = Arc::clone(health);
    let healthz = copepod_supervisor::spawn(
        "proxy-healthz",
        serve_plain(on_health, move |path| match path {
            "/healthz" | "/livez" => {
                let (status, body) = state.report(path == "/healthz");
                PlainResponse::json(status, body)
            }
            _ => PlainResponse::text(404, "404 page not found\n"),
        }),
    );
    let (state, metrics, config) = (Arc::clone(health), Arc::clone(metrics), config.clone());
    let mode = config.mode.name();
    let served = copepod_supervisor::spawn(
        "proxy-metrics",
        serve_plain(on_metrics, move |path| match path {
            "/healthz" if state.is_live() => PlainResponse::text(200, "ok"),
            "/healthz" => PlainResponse::text(503, "rules are not in step with the API\n"),
            "/proxyMode" => PlainResponse::text(200, mode),
            "/metrics" => {
                let mut response = PlainResponse::text(200, metrics.render(mode));
                response.headers[0].1 = Exposition::CONTENT_TYPE.to_owned();
                response
            }
            "/configz" => PlainResponse::json(200, configz(&config)),
            _ => PlainResponse::text(404, "404 page not found\n"),
        }),
    );
    Ok([healthz, served])
}

/// The configuration in the shape of upstream's KubeProxyConfiguration, as far as it is ours.
fn configz(config: &Config) -> String {
    let joined = |nets: &[ipnet::IpNet]| nets.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    serde_json::json!({ "kubeproxy.config.k8s.io": {
        "mode": config.mode.name(),
        "clusterCIDR": joined(&config.cluster_cidrs),
        "hostnameOverride": config.node_name,
        "healthzBindAddress": config.healthz.to_string(),
        "metricsBindAddress": config.metrics.to_string(),
    } })
    .to_string()
}
