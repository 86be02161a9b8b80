//! Connections: dialled, kept while they are idle for a short time, and closed.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::address::{Endpoint, Place};
use super::tls::{self, Identity};

/// What requests carry.
pub(crate) type Outgoing = BoxBody<Bytes, hyper::Error>;
/// One connection that takes requests.
pub(crate) type Sender = http1::SendRequest<Outgoing>;
/// One connection before HTTP.
pub(crate) type Stream = tokio_rustls::client::TlsStream<TcpStream>;

/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(30);
/// Most idle connections to one place.
const MOST_IDLE: usize = 4;
/// How long a connection may take to come about.
const DIAL: Duration = Duration::from_secs(30);

type Key = (Endpoint, Place);

struct Idle {
    sender: Sender,
    since: Instant,
}

/// Idle connections by where they lead and how they were verified.
#[derive(Clone, Default)]
pub(super) struct Pool(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    idle: HashMap<Key, Vec<Idle>>,
    /// Whether a task closes what has been idle for too long.
    sweeping: bool,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("places", &self.0.lock().idle.len()).finish()
    }
}

impl Pool {
    /// An idle connection that is still open.
    pub(super) fn take(&self, to: &Endpoint, place: &Place) -> Option<Sender> {
        let mut state = self.0.lock();
        let list = state.idle.get_mut(&(to.clone(), place.clone()))?;
        while let Some(idle) = list.pop() {
            if idle.sender.is_ready() && idle.since.elapsed() < IDLE {
                return Some(idle.sender);
            }
        }
        None
    }

    /// Keeps a connection for the next request, once it has read the answer to this one.
    pub(super) fn keep(&self, to: &Endpoint, place: &Place, mut sender: Sender) {
        let (pool, key) = (self.clone(), (to.clone(), place.clone()));
        copepod_supervisor::spawn("outbound connection", async move {
            if sender.ready().await.is_err() {
                return;
            }
            let mut state = pool.0.lock();
            let list = state.idle.entry(key).or_default();
            if list.len() < MOST_IDLE {
                list.push(Idle { sender, since: Instant::now() });
            }
            if !std::mem::replace(&mut state.sweeping, true) {
                copepod_supervisor::spawn("idle connections", sweep(Arc::downgrade(&pool.0)));
            }
        });
    }

    /// A new connection that speaks HTTP/1.1.
    pub(super) async fn connect(
        &self,
        to: &Endpoint,
        place: &Place,
        identity: Option<&Identity>,
    ) -> Result<Sender, String> {
        let stream = self.dial(to, place, identity).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| failure(&e))?;
        copepod_supervisor::spawn("outbound connection", async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "outbound connection");
            }
        });
        Ok(sender)
    }

    /// A new connection.
    pub(super) async fn dial(
        &self,
        to: &Endpoint,
        place: &Place,
        identity: Option<&Identity>,
    ) -> Result<Stream, String> {
        let connecting = async {
            let stream = TcpStream::connect((place.host.as_str(), place.port))
                .await
                .map_err(|error| dial_error(place, &error))?;
            stream.set_nodelay(true).map_err(|e| e.to_string())?;
            tls::connect(to, identity, stream).await
        };
        let timeout = || format!("dial tcp {place}: i/o timeout");
        tokio::time::timeout(DIAL, connecting).await.map_err(|_| timeout())?
    }
}

/// Closes what has been idle for too long, until nothing is left.
async fn sweep(pool: Weak<Mutex<State>>) {
    loop {
        tokio::time::sleep(IDLE).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut state = pool.lock();
        for list in state.idle.values_mut() {
            list.retain(|idle| idle.sender.is_ready() && idle.since.elapsed() < IDLE);
        }
        state.idle.retain(|_, list| !list.is_empty());
        if state.idle.is_empty() {
            state.idle.shrink_to_fit();
            state.sweeping = false;
            return;
        }
    }
}

/// Why a connection did not come about, as Go words it.
fn dial_error(place: &Place, error: &std::io::Error) -> String {
    let why = match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connect: connection refused",
        std::io::ErrorKind::TimedOut => "connect: connection timed out",
        std::io::ErrorKind::HostUnreachable => "connect: no route to host",
        std::io::ErrorKind::NetworkUnreachable => "connect: network is unreachable",
        std::io::ErrorKind::ConnectionReset => "connect: connection reset by peer",
        _ if error.raw_os_error().is_none() && place.host.parse::<std::net::IpAddr>().is_err() => {
            return format!("dial tcp: lookup {}: no such host", place.host);
        }
        _ => return format!("dial tcp {place}: connect: {error}"),
    };
    format!("dial tcp {place}: {why}")
}

/// Why an exchange failed, as Go words it.
pub(super) fn failure(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        return "EOF".to_owned();
    }
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
