//! The small HTTPS server of a component that is not the API server: `/healthz`, `/livez`, `/readyz` for probes, and
//! `/metrics` for whoever the API server says may read it.

mod access;
mod tls;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use copepod_api::ApiError;
use http::header::CONTENT_TYPE;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls_pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use self::tls::Tls;
use crate::{Client, ClientError, Result};

/// A client that does not finish its handshake or its request head in this time is dropped.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where to listen and what certificate to show.
#[derive(Debug, Clone)]
pub struct ServingConfig {
    /// Address; upstream's controller-manager and scheduler use 10257 and 10259.
    pub listen: SocketAddr,
    /// Certificate and key files (`--tls-cert-file`, `--tls-private-key-file`); without them a self-signed certificate
    /// is made, in memory.
    pub cert: Option<(PathBuf, PathBuf)>,
    /// The authority of client certificates (`--client-ca-file`); without it the one that the API server publishes.
    pub client_ca: Option<PathBuf>,
}

impl ServingConfig {
    /// Serves at this address, with a certificate made at start.
    #[must_use]
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen, cert: None, client_ca: None }
    }
}

type Metrics = Arc<dyn Fn() -> String + Send + Sync>;

/// Listens and serves in the background until `shutdown`. Returns once the port is open.
///
/// # Errors
/// When the certificate cannot be used or the port is taken.
pub async fn start(
    config: ServingConfig,
    client: &Client,
    metrics: impl Fn() -> String + Send + Sync + 'static,
    shutdown: &CancellationToken,
) -> Result<SocketAddr> {
    let tls = Arc::new(Tls::new(&config, client)?);
    let cannot = |e: std::io::Error| ClientError::Config(format!("listen on {}: {e}", config.listen));
    let listener = TcpListener::bind(config.listen).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let (client, metrics, shutdown) = (client.clone(), Arc::new(metrics) as Metrics, shutdown.clone());
    copepod_supervisor::spawn("serving", async move {
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let (tls, client, metrics) = (Arc::clone(&tls), client.clone(), Arc::clone(&metrics));
                    copepod_supervisor::spawn("connection", connection(stream, tls, client, metrics));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    });
    Ok(address)
}

async fn connection(stream: TcpStream, tls: Arc<Tls>, client: Client, metrics: Metrics) {
    let acceptor = tls.acceptor().await;
    let stream = match tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        // Port scanners and plain HTTP end here; not worth more than a trace.
        Ok(Err(error)) => return tracing::trace!(%error, "TLS handshake failed"),
        Err(_) => return tracing::trace!("TLS handshake took too long"),
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let certificate = certificate.map(|der| Arc::new(der.clone().into_owned()));
    let service =
        service_fn(move |request| answer(request, certificate.clone(), client.clone(), Arc::clone(&metrics)));
    let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::trace!(error, "connection ended");
    }
}

async fn answer(
    request: Request<Incoming>,
    certificate: Option<Arc<CertificateDer<'static>>>,
    client: Client,
    metrics: Metrics,
) -> std::result::Result<Response<Full<Bytes>>, Infallible> {
    Ok(match request.uri().path() {
        "/healthz" | "/livez" | "/readyz" => plain(StatusCode::OK, "ok".to_owned()),
        path @ "/metrics" => {
            match access::check(&client, certificate.as_deref(), request.headers(), path).await {
                Ok(()) => plain(StatusCode::OK, metrics()),
                Err(refusal) => refused(&refusal),
            }
        }
        _ => plain(StatusCode::NOT_FOUND, "404 page not found".to_owned()),
    })
}

fn plain(code: StatusCode, text: String) -> Response<Full<Bytes>> {
    response(code, "text/plain; charset=utf-8", text)
}

fn refused(error: &ApiError) -> Response<Full<Bytes>> {
    let code = u16::try_from(error.status().code).ok().and_then(|code| StatusCode::from_u16(code).ok());
    let text = serde_json::to_string(error.status()).unwrap_or_else(|_| error.to_string());
    response(code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), "application/json", text)
}

fn response(code: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}
