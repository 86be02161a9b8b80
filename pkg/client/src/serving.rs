//! The small HTTPS server of a component that is not the API server: `/healthz`, `/livez`, `/readyz` for probes, and
//! `/metrics` for whoever the API server says may read it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::config::Pem;
use crate::resources::{SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS};
use crate::{Client, ClientError, Result};

/// A client that does not finish its handshake or its request head in this time is dropped.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where to listen and what certificate to show.
#[derive(Debug, Clone)]
pub struct ServingConfig {
    /// Address; upstream's controller-manager and scheduler use 10257 and 10259.
    pub listen: SocketAddr,
    /// Certificate and key files; without them a self-signed certificate is made, in memory.
    pub cert: Option<(PathBuf, PathBuf)>,
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
    let acceptor = TlsAcceptor::from(Arc::new(server_tls(config.cert.as_ref())?));
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
                    let (acceptor, client, metrics) =
                        (acceptor.clone(), client.clone(), Arc::clone(&metrics));
                    copepod_supervisor::spawn("connection", connection(stream, acceptor, client, metrics));
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

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, client: Client, metrics: Metrics) {
    let stream = match tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        // Port scanners and plain HTTP end here; not worth more than a trace.
        Ok(Err(error)) => return tracing::trace!(%error, "TLS handshake failed"),
        Err(_) => return tracing::trace!("TLS handshake took too long"),
    };
    let service = service_fn(move |request| answer(request, client.clone(), Arc::clone(&metrics)));
    let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::trace!(error, "connection ended");
    }
}

async fn answer(
    request: Request<Incoming>,
    client: Client,
    metrics: Metrics,
) -> std::result::Result<Response<Full<Bytes>>, Infallible> {
    let (code, text) = match request.uri().path() {
        "/healthz" | "/livez" | "/readyz" => (StatusCode::OK, "ok".to_owned()),
        "/metrics" => match allowed(&request, &client, "/metrics").await {
            Ok(true) => (StatusCode::OK, metrics()),
            Ok(false) => (StatusCode::FORBIDDEN, "Forbidden".to_owned()),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        },
        _ => (StatusCode::NOT_FOUND, "404 page not found".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    Ok(response)
}

/// Asks the API server who the token's owner is and whether they may read `path`.
async fn allowed(request: &Request<Incoming>, client: &Client, path: &str) -> Result<bool> {
    let header = request.headers().get(AUTHORIZATION).and_then(|v| v.to_str().ok());
    let Some(token) = header.and_then(|v| v.strip_prefix("Bearer ")) else { return Ok(false) };
    let review = json!({
        "apiVersion": TOKEN_REVIEWS.api_version(), "kind": TOKEN_REVIEWS.kind, "spec": {"token": token},
    });
    let review: Value = client.create(&TOKEN_REVIEWS.collection(""), &review).await?;
    if review.pointer("/status/authenticated") != Some(&Value::Bool(true)) {
        return Ok(false);
    }
    let user = &review["status"]["user"];
    let access = json!({
        "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version(), "kind": SUBJECT_ACCESS_REVIEWS.kind,
        "spec": {
            "user": user["username"], "groups": user["groups"], "uid": user["uid"],
            "nonResourceAttributes": {"path": path, "verb": "get"},
        },
    });
    let access: Value = client.create(&SUBJECT_ACCESS_REVIEWS.collection(""), &access).await?;
    Ok(access.pointer("/status/allowed") == Some(&Value::Bool(true)))
}

fn server_tls(files: Option<&(PathBuf, PathBuf)>) -> Result<ServerConfig> {
    let bad = |why: String| ClientError::Config(format!("serving certificate: {why}"));
    let (chain, key) = match files {
        Some((cert, key)) => {
            let chain = CertificateDer::pem_slice_iter(&Pem::File(cert.clone()).read()?)
                .collect::<std::result::Result<Vec<_>, _>>()
                .map_err(|e| bad(e.to_string()))?;
            let key = PrivateKeyDer::from_pem_slice(&Pem::File(key.clone()).read()?);
            (chain, key.map_err(|e| bad(e.to_string()))?)
        }
        None => {
            let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
            let made = rcgen::generate_simple_self_signed(names).map_err(|e| bad(e.to_string()))?;
            let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
            (vec![made.cert.der().clone()], PrivateKeyDer::Pkcs8(key))
        }
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|e| bad(e.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
