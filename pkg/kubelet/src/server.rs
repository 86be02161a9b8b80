//! The server on :10250: what the API server asks of a node, and what scrapers read.
//!
//! TLS always; who asks is known by a client certificate of the cluster's authority or by a token that the API server
//! reviews, and whether they may is the API server's answer too (upstream's webhook mode). Exec, attach and
//! port-forward are tunnelled byte for byte to the runtime's streaming server, which speaks the protocol itself.

mod access;
mod body;
mod handlers;
mod logs;
mod metrics;
mod route;
mod stats;
mod stream;
mod tls;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use copepod_client::Client;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use self::access::Access;
use crate::config::Config;
use crate::error::KubeletError;
use crate::ports::NodeView;

/// How long a peer may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What the handlers share.
pub(crate) struct Server {
    view: Arc<dyn NodeView>,
    access: Access,
    config: Arc<Config>,
}

/// Serves until `shutdown`; returns once it listens.
///
/// # Errors
/// The address cannot be taken, or the certificate cannot be used.
pub async fn start(
    config: Arc<Config>,
    view: Arc<dyn NodeView>,
    client: Option<Client>,
    shutdown: CancellationToken,
) -> Result<(), KubeletError> {
    let Some(settings) = config.server.clone() else { return Ok(()) };
    let tls = TlsAcceptor::from(Arc::new(tls::config(&settings, &config.node_name)?));
    let listener = TcpListener::bind(settings.bind)
        .await
        .map_err(|source| KubeletError::Listen { address: settings.bind, source })?;
    let server = Arc::new(Server { view, access: Access::new(client, &config.node_name), config });
    copepod_supervisor::spawn("kubelet-server", accept(listener, tls, server, shutdown));
    Ok(())
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, server: Arc<Server>, shutdown: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let connection = serve(stream, peer, tls.clone(), Arc::clone(&server), shutdown.clone());
                copepod_supervisor::spawn("kubelet-connection", connection);
            }
            Err(error) => {
                // Out of descriptors, most likely: a moment lets connections end.
                tracing::warn!(%error, "accept on :10250");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    tls: TlsAcceptor,
    server: Arc<Server>,
    shutdown: CancellationToken,
) {
    let stream = match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%peer, %error, "TLS handshake on :10250"),
        Err(_) => return tracing::debug!(%peer, "TLS handshake on :10250 took too long"),
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first().cloned());
    let identity = certificate.and_then(|der| copepod_pki::subject(&der)).map(Arc::new);
    let service = service_fn(move |request| {
        let (server, identity) = (Arc::clone(&server), identity.clone());
        async move { Ok::<_, Infallible>(handlers::handle(&server, identity.as_deref(), request).await) }
    });
    let builder = Builder::new(TokioExecutor::new());
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::select! {
        done = connection => if let Err(error) = done {
            tracing::debug!(%peer, %error, "connection on :10250");
        },
        () = shutdown.cancelled() => {}
    }
}
