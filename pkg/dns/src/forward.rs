//! Asks the upstreams.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query};
use hickory_proto::rr::{Name, RecordType};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use crate::cache::Cache;
use crate::message::Transport;
use crate::metrics::Metrics;

/// How long one upstream may take.
const PATIENCE: Duration = Duration::from_secs(2);
const MAX_DATAGRAM: usize = 4096;

/// No upstream answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ForwardError {
    #[error("no upstream resolver is known")]
    NoUpstream,
    #[error("queries come back to this server")]
    Loop,
    #[error("no upstream answered")]
    Unanswered(#[source] std::io::Error),
}

/// Forwards queries, with a cache.
#[derive(Debug)]
pub(crate) struct Forwarder {
    upstreams: Vec<SocketAddr>,
    cache: Mutex<Cache>,
    /// A name nobody else knows: when somebody asks us for it, our own query came back.
    probe: Name,
    looping: AtomicBool,
}

impl Forwarder {
    pub(crate) fn new(upstreams: Vec<SocketAddr>, cache_seconds: u32) -> Self {
        let label = format!("{:016x}", rand::random::<u64>());
        let probe = Name::from_ascii(format!("{label}.loop-probe.invalid.")).unwrap_or_else(|_| Name::root());
        Self {
            upstreams,
            cache: Mutex::new(Cache::new(cache_seconds)),
            probe,
            looping: AtomicBool::new(false),
        }
    }

    /// Sends the probe once to each upstream; [`Self::is_probe`] notices when it arrives here.
    pub(crate) async fn probe(&self) {
        for upstream in &self.upstreams {
            let query = question(&self.probe, RecordType::HINFO);
            if let Err(error) = exchange(*upstream, &query, Transport::Udp).await {
                tracing::debug!(%upstream, %error, "upstream did not answer the loop probe");
            }
        }
    }

    /// Whether `name` is our own probe come back; forwarding ends then.
    pub(crate) fn is_probe(&self, name: &Name) -> bool {
        let back = *name == self.probe;
        if back && !self.looping.swap(true, Ordering::Relaxed) {
            tracing::error!(upstreams = ?self.upstreams, "an upstream sends queries back to this server; not forwarding");
        }
        back
    }

    pub(crate) fn cached(&self) -> usize {
        self.cache.lock().len()
    }

    /// The answer for `name`, from the cache or an upstream.
    pub(crate) async fn resolve(
        &self,
        name: &Name,
        kind: RecordType,
        transport: Transport,
        metrics: &Metrics,
    ) -> Result<Message, ForwardError> {
        if self.looping.load(Ordering::Relaxed) {
            return Err(ForwardError::Loop);
        }
        let known = self.cache.lock().get(name, kind);
        metrics.cache(known.is_some());
        if let Some(answer) = known {
            return Ok(answer);
        }
        let query = question(name, kind);
        let mut last = ForwardError::NoUpstream;
        for upstream in &self.upstreams {
            metrics.forwarded();
            match exchange(*upstream, &query, transport).await {
                Ok(mut answer) => {
                    let mut cache = self.cache.lock();
                    cache.put(name, kind, &answer);
                    // The first client hears the same times as the next, who is served from the cache.
                    cache.cap(&mut answer, 0);
                    return Ok(answer);
                }
                Err(error) => last = ForwardError::Unanswered(error),
            }
        }
        Err(last)
    }
}

fn question(name: &Name, kind: RecordType) -> Message {
    let mut query = Message::new(rand::random(), MessageType::Query, OpCode::Query);
    query.metadata.recursion_desired = true;
    query.add_query(Query::query(name.clone(), kind));
    let mut edns = Edns::new();
    edns.set_max_payload(1232);
    query.set_edns(edns);
    query
}

/// One question to one upstream. A cut answer over UDP is passed on as it is: the client comes again over TCP.
async fn exchange(upstream: SocketAddr, query: &Message, transport: Transport) -> std::io::Result<Message> {
    let bytes = query.to_vec().map_err(std::io::Error::other)?;
    let work = async {
        match transport {
            Transport::Udp => by_udp(upstream, query, &bytes).await,
            Transport::Tcp => by_tcp(upstream, query, &bytes).await,
        }
    };
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
}

async fn by_udp(upstream: SocketAddr, query: &Message, bytes: &[u8]) -> std::io::Result<Message> {
    let any: SocketAddr = if upstream.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    // A socket of its own for each question: the port is random, which makes forging harder.
    let socket = UdpSocket::bind(any).await?;
    socket.connect(upstream).await?;
    socket.send(bytes).await?;
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        let len = socket.recv(&mut buffer).await?;
        if let Ok(answer) = Message::from_vec(&buffer[..len])
            && is_answer_to(query, &answer)
        {
            return Ok(answer);
        }
    }
}

async fn by_tcp(upstream: SocketAddr, query: &Message, bytes: &[u8]) -> std::io::Result<Message> {
    let mut stream = TcpStream::connect(upstream).await?;
    let len = u16::try_from(bytes.len()).map_err(std::io::Error::other)?;
    stream.write_u16(len).await?;
    stream.write_all(bytes).await?;
    let mut buffer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut buffer).await?;
    let answer = Message::from_vec(&buffer).map_err(std::io::Error::other)?;
    if is_answer_to(query, &answer) { Ok(answer) } else { Err(std::io::ErrorKind::InvalidData.into()) }
}

fn is_answer_to(query: &Message, answer: &Message) -> bool {
    answer.metadata.id == query.metadata.id
        && answer.metadata.message_type == MessageType::Response
        && answer.queries == query.queries
}
