//! Answers over a WebSocket: a watch is one message an event (`apiserver/pkg/endpoints/handlers/watch.go`, `HandleWS`),
//! a log is what was read at a time (`k8s.io/streaming/pkg/httpstream/wsstream`, `Reader`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use futures::{SinkExt as _, Stream, StreamExt as _};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig};

use crate::body::{Body, StreamError};
use crate::server::header_text;

/// The largest message of a client, which has nothing to say, and the size of a read.
const MOST: usize = 64 * 1024;
const READ: usize = 1024;

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
    fn message(self, content: Bytes) -> Message {
        match self {
            // Events are JSON, which is UTF-8; anything else is sent as the bytes it is.
            Self::Text => {
                Utf8Bytes::try_from(content.clone()).map_or(Message::Binary(content), Message::Text)
            }
            Self::Binary => Message::Binary(content),
            Self::Base64 => Message::text(BASE64.encode(content)),
        }
    }
}

/// The form of each subprotocol of a stream of bytes; the empty one stands for a client that names none.
const READER_PROTOCOLS: &[(&str, Form)] =
    &[("", Form::Binary), ("binary.k8s.io", Form::Binary), ("base64.binary.k8s.io", Form::Base64)];

fn listed(headers: &HeaderMap, name: header::HeaderName, wanted: &str) -> bool {
    header_text(headers, name).split(',').any(|t| t.trim().eq_ignore_ascii_case(wanted))
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
    let mut named = offered(&parts.headers).peekable();
    // The empty name stands for a client that offers none.
    let none = named.peek().is_none().then_some("");
    let known = none
        .into_iter()
        .chain(named)
        .find_map(|name| READER_PROTOCOLS.iter().find(|(known, _)| *known == name));
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
    // Upstream's library for these takes no request without an origin.
    if header_text(&parts.headers, header::ORIGIN).is_empty() {
        return refuse(StatusCode::FORBIDDEN);
    }
    let Some((response, upgrade)) = accept(parts) else { return refuse(StatusCode::BAD_REQUEST) };
    copepod_supervisor::spawn("websocket", async move {
        match upgrade.await {
            Ok(io) => run(TokioIo::new(io), form, messages).await,
            Err(error) => tracing::debug!(%error, "upgrade"),
        }
    });
    response
}

/// The subprotocols that a client offers, in its order.
pub(crate) fn offered(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).into_iter();
    lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(',')).map(str::trim)
}

/// The answer that switches protocols, and the connection once it is sent; `None` for a request that is no handshake.
pub(crate) fn accept(parts: &Parts) -> Option<(Response<Body>, OnUpgrade)> {
    let key = header_text(&parts.headers, header::SEC_WEBSOCKET_KEY);
    let upgrade = parts.extensions.get::<OnUpgrade>().cloned().filter(|_| !key.is_empty())?;
    let accept = derive_accept_key(key.as_bytes());
    let mut response = refuse(StatusCode::SWITCHING_PROTOCOLS);
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    Some((response, upgrade))
}

/// Sends messages until they end or the client does. Reading is what answers pings.
async fn run(
    io: impl AsyncRead + AsyncWrite + Unpin,
    form: Form,
    messages: impl Stream<Item = Result<Bytes, StreamError>>,
) {
    let config =
        WebSocketConfig::default().max_message_size(Some(MOST)).read_buffer_size(READ).write_buffer_size(0);
    let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    tokio::pin!(messages);
    loop {
        let sent = tokio::select! {
            heard = socket.next() => match heard {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => Ok(()),
            },
            message = messages.next() => match message {
                Some(Ok(message)) => socket.send(form.message(message)).await,
                _ => break,
            },
        };
        if sent.is_err() {
            return;
        }
    }
    let end = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() };
    if let Err(error) = socket.close(Some(end)).await {
        tracing::debug!(%error, "the client left before the end");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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
        let ab = Bytes::from_static(b"ab");
        assert_eq!(Form::Binary.message(ab.clone()), Message::Binary(ab.clone()));
        assert_eq!(Form::Base64.message(ab.clone()), Message::text("YWI="));
        assert_eq!(Form::Text.message(ab), Message::text("ab"));
    }

    #[test]
    fn an_unknown_subprotocol_is_refused() {
        let request = http::Request::get("/").header(header::SEC_WEBSOCKET_PROTOCOL, "v9.k8s.io");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let answer = serve_bytes(&parts, futures::stream::empty());
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    }
}
