//! The sockets.

use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Name, Record, RecordType};
use rand::seq::SliceRandom;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;

use crate::catalog::Catalog;
use crate::forward::Forwarder;
use crate::message::{Parsed, Transport, authoritative, encode, negative, parse, question, relay, reply};
use crate::metrics::Metrics;
use crate::zone::{Found, Zone};

/// Forwarded queries and TCP connections at once; beyond that UDP clients are told to come again.
const MOST: usize = 1000;
/// A TCP client that says nothing for so long is disconnected.
const IDLE: Duration = Duration::from_secs(10);
/// Aliases followed within one answer.
const MAX_ALIASES: usize = 8;

/// What every query needs.
#[derive(Debug)]
pub(crate) struct Server<C> {
    pub(crate) zone: Zone,
    pub(crate) catalog: C,
    pub(crate) forwarder: Forwarder,
    pub(crate) metrics: Metrics,
    pub(crate) slots: Arc<Semaphore>,
}

/// The room for waiting clients.
pub(crate) fn slots() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(MOST))
}

/// An answer now, or what must be asked elsewhere first.
enum Step {
    Done(Message),
    Forward { aliases: Vec<Record>, target: Name },
}

impl<C: Catalog> Server<C> {
    /// What can be said without waiting.
    fn step(&self, query: &Message) -> Step {
        let Some((name, kind)) = question(query) else {
            return Step::Done(reply(query, ResponseCode::FormErr));
        };
        if self.forwarder.is_probe(name) {
            return Step::Done(reply(query, ResponseCode::NXDomain));
        }
        let mut aliases = Vec::new();
        let mut target = name.clone();
        while aliases.len() < MAX_ALIASES {
            if !self.catalog.is_complete() && self.zone.origin().zone_of(&target) {
                return Step::Done(reply(query, ResponseCode::ServFail));
            }
            match self.zone.find(&self.catalog, &target, kind) {
                Found::Records { mut answers, additionals } => {
                    // Clients take the first address: turn them around.
                    answers.shuffle(&mut rand::rng());
                    aliases.append(&mut answers);
                    return Step::Done(authoritative(query, aliases, additionals));
                }
                Found::Alias { record, target: next } => {
                    aliases.push(record);
                    if kind == RecordType::CNAME {
                        return Step::Done(authoritative(query, aliases, vec![]));
                    }
                    target = next;
                }
                Found::Elsewhere => return Step::Forward { aliases, target },
                Found::NoData => return Step::Done(self.no(query, ResponseCode::NoError, aliases)),
                Found::NoName => return Step::Done(self.no(query, ResponseCode::NXDomain, aliases)),
            }
        }
        Step::Done(reply(query, ResponseCode::ServFail))
    }

    fn no(&self, query: &Message, code: ResponseCode, aliases: Vec<Record>) -> Message {
        let mut out = negative(query, code, self.zone.soa());
        out.add_answers(aliases);
        out
    }

    async fn forward(
        &self,
        query: &Message,
        aliases: Vec<Record>,
        target: &Name,
        transport: Transport,
    ) -> Message {
        let Some((_, kind)) = question(query) else { return reply(query, ResponseCode::FormErr) };
        match self.forwarder.resolve(target, kind, transport, &self.metrics).await {
            Ok(answer) => {
                let mut out = relay(query, answer);
                out.answers.splice(0..0, aliases);
                out
            }
            Err(error) => {
                tracing::debug!(name = %target, error = copepod_client::chain(&error), "cannot resolve");
                let mut out = reply(query, ResponseCode::ServFail);
                out.add_answers(aliases);
                out
            }
        }
    }

    fn finish(&self, query: &Message, answer: &Message, transport: Transport) -> Option<Vec<u8>> {
        self.metrics.response(answer.metadata.response_code);
        encode(query, answer, transport)
    }

    /// Reads a query; an unreadable one is answered here.
    fn read(&self, bytes: &[u8], transport: Transport) -> Result<Box<Message>, Option<Vec<u8>>> {
        match parse(bytes) {
            Parsed::Query(query) => {
                if let Some((_, kind)) = question(&query) {
                    self.metrics.request(transport, kind);
                }
                Ok(query)
            }
            Parsed::Refused(answer) => {
                self.metrics.response(answer.metadata.response_code);
                Err(answer.to_vec().ok())
            }
            Parsed::Garbage => Err(None),
        }
    }
}

/// Answers datagrams for as long as it is polled.
pub(crate) async fn serve_udp<C: Catalog + Send + Sync + 'static>(server: Arc<Server<C>>, socket: UdpSocket) {
    let socket = Arc::new(socket);
    let mut buffer = vec![0; 4096];
    loop {
        let (len, client) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            // An ICMP error of an earlier answer; the socket itself is fine.
            Err(error) => {
                tracing::trace!(%error, "receive");
                continue;
            }
        };
        let send = |bytes: Option<Vec<u8>>| {
            let socket = Arc::clone(&socket);
            async move {
                if let Some(bytes) = bytes
                    && let Err(error) = socket.send_to(&bytes, client).await
                {
                    tracing::trace!(%error, %client, "cannot send an answer");
                }
            }
        };
        let query = match server.read(&buffer[..len], Transport::Udp) {
            Ok(query) => query,
            Err(answer) => {
                send(answer).await;
                continue;
            }
        };
        match server.step(&query) {
            Step::Done(answer) => send(server.finish(&query, &answer, Transport::Udp)).await,
            Step::Forward { aliases, target } => match Arc::clone(&server.slots).try_acquire_owned() {
                Ok(slot) => {
                    let (server, sending) = (Arc::clone(&server), Arc::clone(&socket));
                    copepod_supervisor::spawn("dns-forward", async move {
                        let answer = server.forward(&query, aliases, &target, Transport::Udp).await;
                        if let Some(bytes) = server.finish(&query, &answer, Transport::Udp)
                            && let Err(error) = sending.send_to(&bytes, client).await
                        {
                            tracing::trace!(%error, %client, "cannot send an answer");
                        }
                        drop(slot);
                    });
                }
                Err(_) => {
                    let busy = reply(&query, ResponseCode::ServFail);
                    send(server.finish(&query, &busy, Transport::Udp)).await;
                }
            },
        }
    }
}

/// Answers TCP connections for as long as it is polled.
pub(crate) async fn serve_tcp<C: Catalog + Send + Sync + 'static>(
    server: Arc<Server<C>>,
    listener: TcpListener,
) {
    loop {
        let Ok(slot) = Arc::clone(&server.slots).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let server = Arc::clone(&server);
                copepod_supervisor::spawn("dns-tcp", async move {
                    if let Err(error) = connection(&server, stream).await {
                        tracing::trace!(%error, "connection ended");
                    }
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection<C: Catalog>(server: &Server<C>, mut stream: TcpStream) -> std::io::Result<()> {
    loop {
        let Ok(len) = tokio::time::timeout(IDLE, stream.read_u16()).await else { return Ok(()) };
        let mut buffer = vec![0; usize::from(len?)];
        let Ok(read) = tokio::time::timeout(IDLE, stream.read_exact(&mut buffer)).await else {
            return Ok(());
        };
        read?;
        let bytes = match server.read(&buffer, Transport::Tcp) {
            Ok(query) => {
                let answer = match server.step(&query) {
                    Step::Done(answer) => answer,
                    Step::Forward { aliases, target } => {
                        server.forward(&query, aliases, &target, Transport::Tcp).await
                    }
                };
                server.finish(&query, &answer, Transport::Tcp)
            }
            Err(answer) => answer,
        };
        let Some(bytes) = bytes else { return Ok(()) };
        stream.write_u16(u16::try_from(bytes.len()).map_err(std::io::Error::other)?).await?;
        stream.write_all(&bytes).await?;
    }
}

#[cfg(test)]
mod tests;
