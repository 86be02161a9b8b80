//! Answers over a WebSocket: a watch is one message an event (`apiserver/pkg/endpoints/handlers/watch.go`, `HandleWS`),
//! a log is what was read at a time (`k8s.io/streaming/pkg/httpstream/wsstream`, `Reader`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use ring::digest;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::body::{Body, StreamError};

/// What RFC 6455 hashes with the client's key.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The largest message of a client; it has nothing to say.
const MOST: u64 = 64 * 1024;

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// What the messages are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text as it is.
    Text,
    /// Bytes as they are.
    Binary,
    /// Bytes as base64 text.
    Base64,
}

impl Form {
    fn frame(self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Text => frame(TEXT, message),
            Self::Binary => frame(BINARY, message),
            Self::Base64 => frame(TEXT, BASE64.encode(message).as_bytes()),
        }
    }
}

/// The form of each subprotocol of a stream of bytes; the empty one stands for a client that names none.
const READER_PROTOCOLS: &[(&str, Form)] =
    &[("", Form::Binary), ("binary.k8s.io", Form::Binary), ("base64.binary.k8s.io", Form::Base64)];

fn listed(headers: &HeaderMap, name: header::HeaderName, wanted: &str) -> bool {
    let text = headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
    text.split(',').any(|t| t.trim().eq_ignore_ascii_case(wanted))
}

/// Whether a request asks for a WebSocket.
pub(crate) fn wanted(headers: &HeaderMap) -> bool {
    listed(headers, header::CONNECTION, "upgrade") && listed(headers, header::UPGRADE, "websocket")
}

fn refuse(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Switches protocols and sends a stream of bytes, after an empty message that tells the client it has begun.
pub(crate) fn serve_bytes(
    parts: &Parts,
    chunks: impl Stream<Item = Result<Bytes, StreamError>> + Send + 'static,
) -> Response<Body> {
    let named = parts.headers.get(header::SEC_WEBSOCKET_PROTOCOL).and_then(|v| v.to_str().ok());
    let known = named.unwrap_or_default().split(',').map(str::trim);
    let known = known.filter_map(|name| READER_PROTOCOLS.iter().find(|(known, _)| *known == name)).next();
    let Some((protocol, form)) = known else { return refuse(StatusCode::FORBIDDEN) };
    let begin = futures::stream::once(async { Ok(Bytes::new()) });
    let mut response = serve(parts, *form, begin.chain(chunks));
    if !protocol.is_empty() && response.status() == StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    }
    response
}

/// Switches protocols and sends the messages.
pub(crate) fn serve(
    parts: &Parts,
    form: Form,
    messages: impl Stream<Item = Result<Bytes, StreamError>> + Send + 'static,
) -> Response<Body> {
    let header = |name| parts.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
    // Upstream's library takes no request without an origin.
    if header(header::ORIGIN).is_empty() {
        return refuse(StatusCode::FORBIDDEN);
    }
    let key = header(header::SEC_WEBSOCKET_KEY);
    let Some(upgrade) = parts.extensions.get::<OnUpgrade>().cloned().filter(|_| !key.is_empty()) else {
        return refuse(StatusCode::BAD_REQUEST);
    };
    let accept = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes());
    let accept = BASE64.encode(accept);
    copepod_supervisor::spawn("websocket", async move {
        match upgrade.await {
            Ok(io) => run(TokioIo::new(io), form, messages).await,
            Err(error) => tracing::debug!(%error, "upgrade"),
        }
    });
    let mut response = refuse(StatusCode::SWITCHING_PROTOCOLS);
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

/// Sends messages until they end or the client does.
async fn run(
    io: impl AsyncRead + AsyncWrite + Send,
    form: Form,
    messages: impl Stream<Item = Result<Bytes, StreamError>> + Send,
) {
    let (mut from, mut to) = tokio::io::split(io);
    let (pings, mut asked) = tokio::sync::mpsc::channel(4);
    let listen = async move {
        while let Ok(Some(ping)) = next_ping(&mut from).await {
            if pings.send(ping).await.is_err() {
                return;
            }
        }
    };
    tokio::pin!(listen);
    tokio::pin!(messages);
    loop {
        let frame = tokio::select! {
            () = &mut listen => break,
            Some(ping) = asked.recv() => frame(PONG, &ping),
            message = messages.next() => match message {
                Some(Ok(message)) => form.frame(&message),
                _ => break,
            },
        };
        if to.write_all(&frame).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
    // Whether the client hears of the end or is gone already makes no difference.
    drop(to.write_all(&frame(CLOSE, &1000_u16.to_be_bytes())).await);
}

/// A frame of a server: whole, unmasked.
fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len() + 10);
    out.push(0x80 | opcode);
    match payload.len() {
        small @ 0..126 => out.push(u8::try_from(small).unwrap_or_default()),
        large => match u16::try_from(large) {
            Ok(length) => {
                out.push(126);
                out.extend_from_slice(&length.to_be_bytes());
            }
            Err(_) => {
                out.push(127);
                out.extend_from_slice(&(large as u64).to_be_bytes());
            }
        },
    }
    out.extend_from_slice(payload);
    out
}

/// Reads frames up to the next ping, whose payload it gives; `None` at the end.
async fn next_ping(from: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Option<Vec<u8>>> {
    loop {
        let mut head = [0_u8; 2];
        from.read_exact(&mut head).await?;
        let length = match head[1] & 0x7f {
            126 => u64::from(from.read_u16().await?),
            127 => from.read_u64().await?,
            small => u64::from(small),
        };
        let mut mask = [0_u8; 4];
        if head[1] & 0x80 != 0 {
            from.read_exact(&mut mask).await?;
        }
        if length > MOST {
            return Ok(None);
        }
        let mut payload = vec![0_u8; usize::try_from(length).unwrap_or_default()];
        from.read_exact(&mut payload).await?;
        for (byte, mask) in payload.iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
        match head[0] & 0x0f {
            CLOSE => return Ok(None),
            PING => return Ok(Some(payload)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn events_pings_and_the_end() {
        let (client, server) = tokio::io::duplex(1 << 20);
        let (send, events) = futures::channel::mpsc::unbounded();
        let serving = run(server, Form::Text, events);
        let talk = async move {
            let (mut from, mut to) = tokio::io::split(client);
            send.unbounded_send(Ok(Bytes::from(vec![b'x'; 300]))).unwrap();
            let mut head = [0_u8; 4];
            from.read_exact(&mut head).await.unwrap();
            assert_eq!(head, [0x81, 126, 1, 44]);
            let mut body = [0_u8; 300];
            from.read_exact(&mut body).await.unwrap();
            to.write_all(&[0x89, 0x82, 1, 2, 3, 4, b'h' ^ 1, b'i' ^ 2]).await.unwrap();
            let mut pong = [0_u8; 4];
            from.read_exact(&mut pong).await.unwrap();
            assert_eq!(pong, [0x8a, 2, b'h', b'i']);
            drop(send);
            let mut close = [0_u8; 4];
            from.read_exact(&mut close).await.unwrap();
            assert_eq!(close, [0x88, 2, 3, 232]);
        };
        tokio::join!(serving, talk);
    }

    #[test]
    fn bytes_go_as_they_are_or_as_base64() {
        assert_eq!(Form::Binary.frame(b"ab"), [0x82, 2, b'a', b'b']);
        assert_eq!(Form::Base64.frame(b"ab"), [0x81, 4, b'Y', b'W', b'I', b'=']);
        assert_eq!(Form::Binary.frame(b""), [0x82, 0]);
    }

    #[test]
    fn an_unknown_subprotocol_is_refused() {
        let request = http::Request::get("/").header(header::SEC_WEBSOCKET_PROTOCOL, "v9.k8s.io");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let answer = serve_bytes(&parts, futures::stream::empty());
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    }
}
