//! SPDY within a WebSocket, as `kubectl port-forward` speaks since v1.31 (KEP-4006): the client's connection is a
//! WebSocket whose binary messages carry the bytes of a SPDY connection, the kubelet's is that SPDY connection.

use bytes::BytesMut;
use copepod_api::ApiResult;
use futures::{SinkExt as _, StreamExt as _};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Message, Role, WebSocketConfig};

use super::forward::{Destination, answer, ask};
use crate::body::Body;
use crate::kubelet::Kubelets;
use crate::{respond, socket};

/// What stands before the name of a SPDY protocol in that of its WebSocket form, and the protocol's own upgrade.
const PREFIX: &str = "SPDY/3.1+";
const SPDY: HeaderValue = HeaderValue::from_static("SPDY/3.1");
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// The most bytes of a message to the client.
const CHUNK: usize = 16 * 1024;

/// The SPDY protocols that a client offers in WebSocket form.
fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    socket::offered(headers)
        .filter(|name| name.ends_with(".k8s.io"))
        .filter_map(|name| name.strip_prefix(PREFIX))
}

/// Whether a request asks for SPDY within a WebSocket.
pub(super) fn wanted(headers: &HeaderMap) -> bool {
    socket::wanted(headers) && protocols(headers).next().is_some()
}

/// The same request over SPDY.
fn unwrapped(parts: &Parts) -> Parts {
    let mut out = parts.clone();
    out.method = Method::POST;
    for name in [
        header::SEC_WEBSOCKET_PROTOCOL,
        header::SEC_WEBSOCKET_KEY,
        header::SEC_WEBSOCKET_VERSION,
        header::SEC_WEBSOCKET_EXTENSIONS,
    ] {
        out.headers.remove(name);
    }
    out.headers.insert(header::UPGRADE, SPDY);
    out.headers.remove(STREAM_PROTOCOL);
    for name in protocols(&parts.headers).filter_map(|name| HeaderValue::from_str(name).ok()) {
        out.headers.append(STREAM_PROTOCOL, name);
    }
    out
}

/// Connects the client's WebSocket with a SPDY connection to `to`. An answer that is no upgrade goes to the client.
pub(super) async fn serve(kubelets: &Kubelets, to: Destination, parts: &Parts) -> ApiResult<Response<Body>> {
    let mut far = ask(kubelets, to, &unwrapped(parts)).await?;
    if far.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(answer(far, None).await);
    }
    if far
        .headers()
        .get(header::UPGRADE)
        .is_none_or(|name| !name.as_bytes().eq_ignore_ascii_case(SPDY.as_bytes()))
    {
        let text = "unable to upgrade: missing upgrade headers in response\n";
        return Ok(respond::text(StatusCode::INTERNAL_SERVER_ERROR.as_u16(), text));
    }
    let Some((mut response, near)) = socket::accept(parts) else {
        return Ok(respond::text(StatusCode::BAD_REQUEST.as_u16(), "Bad Request\n"));
    };
    let chosen = far.headers().get(STREAM_PROTOCOL).and_then(|name| name.to_str().ok());
    if let Some(name) = chosen.and_then(|name| HeaderValue::from_str(&format!("{PREFIX}{name}")).ok()) {
        response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, name);
    }
    copepod_supervisor::spawn("tunnel", join(near, hyper::upgrade::on(&mut far)));
    Ok(response)
}

async fn join(near: OnUpgrade, far: OnUpgrade) {
    match futures::future::try_join(near, far).await {
        Ok((near, far)) => copy(TokioIo::new(near), TokioIo::new(far)).await,
        Err(error) => tracing::debug!(%error, "upgrade"),
    }
}

/// Copies both ways until one side ends.
async fn copy(near: impl AsyncRead + AsyncWrite + Unpin, far: impl AsyncRead + AsyncWrite) {
    let config = WebSocketConfig::default().read_buffer_size(CHUNK).write_buffer_size(0);
    let (mut to_near, mut from_near) =
        WebSocketStream::from_raw_socket(near, Role::Server, Some(config)).await.split();
    let (mut from_far, mut to_far) = tokio::io::split(far);
    let inward = async {
        while let Some(Ok(message)) = from_near.next().await {
            match message {
                Message::Binary(bytes) => to_far.write_all(&bytes).await?,
                Message::Close(_) => break,
                _ => {}
            }
        }
        to_far.shutdown().await
    };
    let outward = async {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(CHUNK);
            if matches!(from_far.read_buf(&mut buffer).await, Ok(0) | Err(_)) {
                return to_near.close().await;
            }
            to_near.send(Message::Binary(buffer.split().freeze())).await?;
        }
    };
    // Either end is the end: SPDY closes its streams itself.
    tokio::select! {
        ended = inward => if let Err(error) = ended { tracing::debug!(%error, "to the kubelet") },
        ended = outward => if let Err(error) = ended { tracing::debug!(%error, "to the client") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(protocol: &'static str) -> Parts {
        let request = http::Request::get("/api/v1/namespaces/n/pods/p/portforward?ports=80")
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_KEY, "x")
            .header(header::SEC_WEBSOCKET_PROTOCOL, protocol);
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_request_becomes_one_of_spdy() {
        let asked = parts("SPDY/3.1+portforward.k8s.io, other");
        assert!(wanted(&asked.headers) && !wanted(&parts("v4.channel.k8s.io").headers));
        let out = unwrapped(&asked);
        assert_eq!((out.method, out.headers[header::UPGRADE].to_str().unwrap()), (Method::POST, "SPDY/3.1"));
        assert_eq!(out.headers[STREAM_PROTOCOL], "portforward.k8s.io");
        assert!(!out.headers.contains_key(header::SEC_WEBSOCKET_KEY));
    }

    #[tokio::test]
    async fn bytes_go_both_ways_until_one_side_ends() {
        let (client, near) = tokio::io::duplex(1 << 16);
        let (far, mut kubelet) = tokio::io::duplex(1 << 16);
        let talk = async {
            let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
            client.send(Message::binary(b"ping".as_slice())).await.unwrap();
            let mut heard = [0; 4];
            kubelet.read_exact(&mut heard).await.unwrap();
            assert_eq!(&heard, b"ping");
            kubelet.write_all(b"pong").await.unwrap();
            assert_eq!(client.next().await.unwrap().unwrap(), Message::binary(b"pong".as_slice()));
            drop(kubelet);
            assert!(matches!(client.next().await, Some(Ok(Message::Close(_)))));
        };
        tokio::join!(copy(near, far), talk);
    }
}
