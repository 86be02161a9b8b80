//! Passes one request on and its answer back; upgraded connections become tunnels.

use bytes::Bytes;
use copepod_api::{ApiError, ApiResult, Reason};
use futures::StreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, combinators::BoxBody};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;

use super::links::Source;
use crate::body::{Body, StreamError};
use crate::kubelet::{Io, Kubelets};

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Destination {
    /// Whether to speak TLS.
    pub tls: bool,
    /// Whether it is a kubelet: then with this server's client certificate.
    pub kubelet: bool,
    /// The address or name.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Path and query there.
    pub path_and_query: String,
    /// What to put before the paths of redirects; empty for none.
    pub prefix: String,
}

/// Headers that belong to one hop, or to this server alone.
const DROPPED: &[HeaderName] = &[
    header::AUTHORIZATION,
    header::CONNECTION,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

type Outgoing = BoxBody<Bytes, hyper::Error>;

fn unreachable(error: impl std::fmt::Display) -> ApiError {
    ApiError::new(Reason::ServiceUnavailable, format!("error trying to reach service: {error}"))
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    let text = headers.get(header::CONNECTION).and_then(|v| v.to_str().ok()).unwrap_or_default();
    text.split(',').any(|t| t.trim().eq_ignore_ascii_case("upgrade"))
}

fn outgoing_headers(from: &HeaderMap, authority: &str, upgrade: bool) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(from.len());
    for (name, value) in from {
        if !DROPPED.contains(name) && !name.as_str().starts_with("impersonate-") {
            headers.append(name.clone(), value.clone());
        }
    }
    if let Ok(value) = HeaderValue::from_str(authority) {
        headers.insert(header::HOST, value);
    }
    if upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        if let Some(protocol) = from.get(header::UPGRADE) {
            headers.insert(header::UPGRADE, protocol.clone());
        }
    }
    headers
}

/// Where on the far side a request goes.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Host and port, for the `Host` header.
    pub authority: String,
    /// Path and query there.
    pub path_and_query: String,
    /// What to put before the paths of redirects and links; empty for none.
    pub prefix: String,
}

impl From<Destination> for Relay {
    fn from(to: Destination) -> Self {
        let host = if to.host.contains(':') { format!("[{}]", to.host) } else { to.host };
        let authority = format!("{host}:{}", to.port);
        Self { authority, path_and_query: to.path_and_query, prefix: to.prefix }
    }
}

/// Sends the request of `parts` and `body` to `to`.
pub(crate) async fn forward(
    kubelets: &Kubelets,
    to: Destination,
    parts: http::request::Parts,
    body: Option<Incoming>,
) -> ApiResult<Response<Body>> {
    let io = kubelets.dial(&to).await.map_err(unreachable)?;
    relay(io, to.into(), parts, body, |_| ()).await.map_err(unreachable)
}

/// Sends the request of `parts` to `to`; an upgraded connection is the caller's.
pub(super) async fn ask(
    kubelets: &Kubelets,
    to: Destination,
    parts: &http::request::Parts,
) -> ApiResult<Response<Incoming>> {
    let io = kubelets.dial(&to).await.map_err(unreachable)?;
    let (answer, _) = send(io, &to.into(), parts, None, |_| ()).await.map_err(unreachable)?;
    Ok(answer)
}

/// Sends the request of `parts` and `body` over `io`; `last` changes the headers that are sent.
pub(crate) async fn relay(
    io: Box<dyn Io>,
    to: Relay,
    parts: http::request::Parts,
    body: Option<Incoming>,
    last: impl FnOnce(&mut HeaderMap),
) -> Result<Response<Body>, String> {
    let (mut response, source) = send(io, &to, &parts, body, last).await?;
    if is_upgrade(&parts.headers) && response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let far = hyper::upgrade::on(&mut response);
        let near = hyper::upgrade::on(Request::from_parts(parts, ()));
        copepod_supervisor::spawn("tunnel", tunnel(near, far));
        let (head, _) = response.into_parts();
        return Ok(Response::from_parts(head, Body::empty()));
    }
    Ok(answer(response, source).await)
}

async fn send(
    io: Box<dyn Io>,
    to: &Relay,
    parts: &http::request::Parts,
    body: Option<Incoming>,
    last: impl FnOnce(&mut HeaderMap),
) -> Result<(Response<Incoming>, Option<Source>), String> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake::<_, Outgoing>(TokioIo::new(io))
        .await
        .map_err(|e| e.to_string())?;
    copepod_supervisor::spawn("proxy connection", async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "proxied connection");
        }
    });
    let upgrade = is_upgrade(&parts.headers);
    let outgoing: Outgoing = match body {
        Some(body) if !upgrade => body.boxed(),
        _ => Empty::new().map_err(|never| match never {}).boxed(),
    };
    let mut request = Request::new(outgoing);
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = to.path_and_query.parse().map_err(|_| "invalid path".to_owned())?;
    *request.headers_mut() = outgoing_headers(&parts.headers, &to.authority, upgrade);
    let requested = parts.headers.get(header::HOST).and_then(|v| v.to_str().ok());
    let requested = requested.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str));
    let source = (!to.prefix.is_empty()).then(|| Source {
        host: to.authority.clone(),
        requested: requested.unwrap_or_default().to_owned(),
        prefix: to.prefix.clone(),
    });
    if let Some(source) = &source
        && let Ok(value) = HeaderValue::from_str(&format!("{}{}", source.prefix, request.uri().path()))
    {
        request.headers_mut().insert("x-forwarded-uri", value);
    }
    last(request.headers_mut());
    let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
    Ok((response, source))
}

/// The answer as the client gets it: redirects and the links of pages lead back through the proxy.
pub(super) async fn answer(response: Response<Incoming>, source: Option<Source>) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    for name in [header::CONNECTION, header::TRANSFER_ENCODING] {
        head.headers.remove(name);
    }
    let text = |headers: &HeaderMap, name: HeaderName| {
        headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned()
    };
    let location = text(&head.headers, header::LOCATION);
    if let Some(source) = source {
        let kind = text(&head.headers, header::CONTENT_TYPE);
        if !location.is_empty() {
            if let Ok(value) = HeaderValue::from_str(&source.rewrite(&location)) {
                head.headers.insert(header::LOCATION, value);
            }
        } else if kind.split(';').next().is_some_and(|kind| kind.trim() == "text/html") {
            return page(head, body, &source).await;
        }
    }
    let chunks =
        http_body_util::BodyDataStream::new(body).map(|chunk| chunk.map_err(|e| Box::new(e) as StreamError));
    let body = if head.headers.get(header::CONTENT_LENGTH).is_some_and(|l| l == "0") {
        Body::empty()
    } else {
        Body::stream(chunks)
    };
    Response::from_parts(head, body)
}

/// A page with its links rewritten.
async fn page(mut head: http::response::Parts, body: Incoming, source: &Source) -> Response<Body> {
    let encoding = head.headers.get(header::CONTENT_ENCODING).and_then(|v| v.to_str().ok());
    let encoding = encoding.unwrap_or_default().to_owned();
    let whole = match body.collect().await {
        Ok(whole) => whole.to_bytes(),
        Err(error) => {
            let cut = futures::stream::once(async move { Err(Box::new(error) as StreamError) });
            return Response::from_parts(head, Body::stream(cut));
        }
    };
    let rewritten = source.page(&encoding, &whole).map_or(whole, Bytes::from);
    // HEAD has the length of a page that is not there.
    if !rewritten.is_empty() {
        head.headers.remove(header::CONTENT_LENGTH);
    }
    Response::from_parts(head, Body::whole(rewritten))
}

async fn tunnel(near: hyper::upgrade::OnUpgrade, far: hyper::upgrade::OnUpgrade) {
    match futures::future::try_join(near, far).await {
        Ok((near, far)) => {
            let (mut near, mut far) = (TokioIo::new(near), TokioIo::new(far));
            if let Err(error) = tokio::io::copy_bidirectional(&mut near, &mut far).await {
                tracing::debug!(%error, "tunnel");
            }
        }
        Err(error) => tracing::debug!(%error, "upgrade"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_stay_here() {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer x"));
        headers.insert("impersonate-user", HeaderValue::from_static("y"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert("sec-websocket-protocol", HeaderValue::from_static("v5.channel.k8s.io"));
        assert!(is_upgrade(&headers));
        let out = outgoing_headers(&headers, "10.0.0.1:10250", true);
        assert!(!out.contains_key(header::AUTHORIZATION) && !out.contains_key("impersonate-user"));
        assert_eq!(out[header::UPGRADE], "websocket");
        assert_eq!(out["sec-websocket-protocol"], "v5.channel.k8s.io");
        assert!(!outgoing_headers(&headers, "h", false).contains_key(header::UPGRADE));
    }
}
