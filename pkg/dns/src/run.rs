//! Starts the server and its small neighbours.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use copepod_client::{Client, ClientConfig, ClientError};
use copepod_telemetry::{Exposition, PlainResponse, serve_plain};
use tokio::net::{TcpListener, UdpSocket};
use tokio_util::sync::CancellationToken;

use crate::catalog::{Catalog, Informers};
use crate::config::Config;
use crate::forward::Forwarder;
use crate::metrics::Metrics;
use crate::server::{Server, serve_tcp, serve_udp, slots};
use crate::upstream;
use crate::zone::Zone;

/// The server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum DnsError {
    /// The API cannot be reached with this configuration.
    #[error("set up the API client")]
    Client(#[from] ClientError),
    /// A port is taken.
    #[error("listen on {address}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The domain is no domain name.
    #[error("read the cluster domain {domain:?}")]
    Domain {
        /// What was given.
        domain: String,
        /// Why.
        #[source]
        source: hickory_proto::ProtoError,
    },
}

async fn listen(address: SocketAddr) -> Result<TcpListener, DnsError> {
    TcpListener::bind(address).await.map_err(|source| DnsError::Listen { address, source })
}

/// The address this machine would send from: what an upstream must not be.
async fn own_addresses(listen: SocketAddr) -> Vec<IpAddr> {
    if !listen.ip().is_unspecified() {
        return vec![listen.ip()];
    }
    // Connecting a datagram socket sends nothing; it asks the kernel for a route and a source.
    let probe = async {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 53)).await?;
        socket.local_addr()
    };
    match probe.await {
        Ok(address) => vec![address.ip()],
        Err(error) => {
            tracing::debug!(%error, "this machine has no way out");
            Vec::new()
        }
    }
}

/// Serves until `shutdown`.
///
/// # Errors
/// When it cannot start.
pub async fn run(config: Config, shutdown: CancellationToken) -> Result<(), DnsError> {
    let client_config = match &config.kubeconfig {
        Some(path) => ClientConfig::from_kubeconfig(path)?,
        None => ClientConfig::in_cluster()?,
    };
    let client = Client::new(&client_config.user_agent("copepod-dns"))?;
    let zone = Zone::new(&config.cluster_domain, config.ttl)
        .map_err(|source| DnsError::Domain { domain: config.cluster_domain.clone(), source })?;
    let address = config.listen;
    let udp = UdpSocket::bind(address).await.map_err(|source| DnsError::Listen { address, source })?;
    let tcp = listen(address).await?;
    let (health, ready, metrics) =
        (listen(config.health).await?, listen(config.ready).await?, listen(config.metrics).await?);
    let upstreams = upstream::read(&config.resolv_conf, &own_addresses(address).await);
    tracing::info!(domain = config.cluster_domain, %address, ?upstreams, "DNS server started");
    let server = Arc::new(Server {
        zone,
        catalog: Informers::start(&client, &shutdown),
        forwarder: Forwarder::new(upstreams, config.cache_seconds),
        metrics: Metrics::default(),
        slots: slots(),
    });
    let background = async {
        server.catalog.synced().await;
        tracing::info!("zone is complete");
        server.forwarder.probe().await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = serve_udp(Arc::clone(&server), udp) => {}
        () = serve_tcp(Arc::clone(&server), tcp) => {}
        () = background => {}
        () = serve_plain(health, |path| page(path, "/health", PlainResponse::text(200, "OK"))) => {}
        () = serve_plain(ready, |path| page(path, "/ready", readiness(&server))) => {}
        () = serve_plain(metrics, |path| page(path, "/metrics", exposition(&server))) => {}
    }
    Ok(())
}

fn page(path: &str, known: &str, response: PlainResponse) -> PlainResponse {
    if path == known { response } else { PlainResponse::text(404, "404 page not found\n") }
}

fn readiness(server: &Server<Informers>) -> PlainResponse {
    if server.catalog.is_complete() {
        PlainResponse::text(200, "OK")
    } else {
        PlainResponse::text(503, "waiting for Services and EndpointSlices\n")
    }
}

fn exposition(server: &Server<Informers>) -> PlainResponse {
    let mut response = PlainResponse::text(200, server.metrics.render(server.forwarder.cached()));
    response.headers[0].1 = Exposition::CONTENT_TYPE.to_owned();
    response
}
