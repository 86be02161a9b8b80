//! Exec, attach and port-forward: the connection becomes the runtime's.
//!
//! The runtime's streaming server speaks SPDY and WebSocket itself, so the kubelet repeats the upgrade request there
//! and then copies bytes both ways, without looking at them.

use http::{HeaderName, Request, Response, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::body::{Body, full, text};

/// Headers that belong to a connection or a caller, not to the request that is repeated.
const NOT_REPEATED: [HeaderName; 2] = [header::HOST, header::AUTHORIZATION];

/// Repeats `request` at `url` and joins the two connections when both sides agree to upgrade.
pub(super) async fn tunnel(mut request: Request<Incoming>, url: &str) -> Response<Body> {
    let client_side = hyper::upgrade::on(&mut request);
    match repeat(request, url).await {
        Ok(answer) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => join(client_side, answer),
        Ok(answer) => {
            let (parts, body) = answer.into_parts();
            let data = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            Response::from_parts(parts, full(data))
        }
        Err(why) => text(StatusCode::BAD_GATEWAY, &format!("the runtime's streaming server at {url}: {why}")),
    }
}

async fn repeat(request: Request<Incoming>, url: &str) -> Result<Response<Incoming>, String> {
    let target: Uri = url.parse().map_err(|e| format!("{e}"))?;
    let authority = target.authority().ok_or("the URL names no host")?.to_string();
    let stream = TcpStream::connect(&authority).await.map_err(|e| e.to_string())?;
    // Keystrokes travel one by one.
    stream.set_nodelay(true).map_err(|e| e.to_string())?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
    copepod_supervisor::spawn("kubelet-stream", async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "connection to the runtime's streaming server");
        }
    });
    let (mut parts, body) = request.into_parts();
    for name in NOT_REPEATED {
        parts.headers.remove(name);
    }
    let path = target.path_and_query().map_or("/", |p| p.as_str());
    parts.uri = path.parse().map_err(|e| format!("{e}"))?;
    parts.version = http::Version::HTTP_11;
    parts.headers.insert(header::HOST, authority.parse().map_err(|e| format!("{e}"))?);
    sender.send_request(Request::from_parts(parts, body)).await.map_err(|e| e.to_string())
}

/// Answers the client as the runtime answered, and copies from then on.
fn join(client_side: OnUpgrade, mut answer: Response<Incoming>) -> Response<Body> {
    let runtime_side = hyper::upgrade::on(&mut answer);
    copepod_supervisor::spawn("kubelet-stream", async move {
        let (client, runtime) = match tokio::try_join!(client_side, runtime_side) {
            Ok(both) => both,
            Err(error) => return tracing::debug!(%error, "a side did not upgrade"),
        };
        let copied =
            tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(runtime)).await;
        if let Err(error) = copied {
            tracing::debug!(%error, "stream ended");
        }
    });
    let (parts, _) = answer.into_parts();
    Response::from_parts(parts, full(""))
}
