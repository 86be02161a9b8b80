//! The accept loop: TLS, HTTP/1.1 and HTTP/2 as upstream sets them, graceful drain.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::authn::certificate::{Authorities, PeerIdentity, identify};
use crate::body::Body;
use crate::error::ServeError;

pub(crate) mod tls;

/// HTTP/2 flow-control window of one stream (upstream's `resourceFootprint`).
const STREAM_WINDOW: u32 = 256 * 1024;
/// HTTP/2 flow-control window of a connection: 100 streams' worth.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * 100;
/// Streams one connection may have open (`--http2-max-streams-per-connection`).
const MAX_STREAMS: u32 = 250;
/// How long a peer may take for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long requests may take to end once the server stops.
const DRAIN: Duration = Duration::from_secs(5);

/// Who is on the other side of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// What its certificate proves.
    pub identity: PeerIdentity,
}

/// What answers requests.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Answers one request.
    fn handle(
        self: Arc<Self>,
        peer: Peer,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// The authorities that client certificates are checked against.
#[derive(Debug, Default, Clone)]
pub(crate) struct Trust {
    /// `--client-ca-file`.
    pub clients: Arc<Authorities>,
    /// `--requestheader-client-ca-file`.
    pub front_proxies: Arc<Authorities>,
}

/// Serves connections of `listener` until `shutdown`, then lets open requests end for a few seconds.
pub(crate) async fn serve<H: Handler>(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    trust: Trust,
    handler: Arc<H>,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, address) = match accepted {
            Ok(pair) => pair,
            Err(error) => {
                // Out of file descriptors or an aborted connection: the next accept may work.
                tracing::warn!(%error, "accept");
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let connection = Connection {
            address,
            acceptor: acceptor.clone(),
            trust: trust.clone(),
            handler: Arc::clone(&handler),
            shutdown: shutdown.clone(),
        };
        copepod_supervisor::spawn("connection", connections.track_future(connection.run(stream)));
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait()).await.is_err() {
        tracing::info!(open = connections.len(), "connections cut after the drain time");
    }
    Ok(())
}

struct Connection<H> {
    address: SocketAddr,
    acceptor: TlsAcceptor,
    trust: Trust,
    handler: Arc<H>,
    shutdown: CancellationToken,
}

impl<H: Handler> Connection<H> {
    async fn run(self, stream: TcpStream) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "set TCP_NODELAY");
        }
        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.acceptor.accept(stream)).await;
        let stream = match handshake {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(%error, peer = %self.address, "TLS handshake");
                return;
            }
            Err(_) => return,
        };
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let identity = identify(chain, &self.trust.clients, &self.trust.front_proxies);
        let peer = Peer { identity };
        let handler = self.handler;
        let service = service_fn(move |request: Request<Incoming>| {
            let (handler, peer) = (Arc::clone(&handler), peer.clone());
            async move { Ok::<_, Infallible>(handler.handle(peer, request).await) }
        });
        let builder = protocol();
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let result = tokio::select! {
            result = connection.as_mut() => result,
            () = self.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = result {
            tracing::debug!(%error, peer = %self.address, "connection");
        }
    }
}

fn protocol() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(MAX_STREAMS)
        .max_send_buf_size(64 * 1024)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(15));
    builder.http1().timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(32));
    builder
}
