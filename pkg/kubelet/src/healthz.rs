//! `/healthz` on loopback, without TLS.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::KubeletError;

/// How often and how long to wait for an address that is in use.
const BIND_TRIES: u32 = 100;
const BIND_WAIT: Duration = Duration::from_millis(100);

/// Says whether the kubelet is well; the text names what is not.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Serves until shutdown.
///
/// # Errors
/// When the address cannot be bound.
pub async fn serve(
    address: SocketAddr,
    check: Check,
    shutdown: CancellationToken,
) -> Result<(), KubeletError> {
    let listener = bind(address).await?;
    copepod_supervisor::spawn("healthz", async move {
        loop {
            let stream = tokio::select! {
                () = shutdown.cancelled() => return,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::debug!(%error, "healthz accept");
                        continue;
                    }
                },
            };
            let check = check.clone();
            copepod_supervisor::spawn("healthz connection", async move {
                let service = service_fn(move |request| {
                    let answer = respond(&request, &check);
                    async move { Ok::<_, Infallible>(answer) }
                });
                if let Err(error) = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await
                {
                    tracing::debug!(%error, "healthz connection");
                }
            });
        }
    });
    Ok(())
}

/// Binds; a predecessor that is just going is waited for.
async fn bind(address: SocketAddr) -> Result<TcpListener, KubeletError> {
    let mut tries = 0;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && tries < BIND_TRIES => {
                tries += 1;
                tokio::time::sleep(BIND_WAIT).await;
            }
            Err(source) => return Err(KubeletError::Listen { address, source }),
        }
    }
}

fn respond(request: &Request<Incoming>, check: &Check) -> Response<Full<Bytes>> {
    let (status, text) = match (request.uri().path(), check()) {
        ("/healthz" | "/healthz/ping" | "/healthz/syncloop", Ok(())) => (StatusCode::OK, "ok".to_owned()),
        ("/healthz" | "/healthz/syncloop", Err(why)) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("[-]syncloop failed: {why}\nhealthz check failed\n"))
        }
        ("/healthz/ping", Err(_)) => (StatusCode::OK, "ok".to_owned()),
        _ => (StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert("content-type", http::HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert("x-content-type-options", http::HeaderValue::from_static("nosniff"));
    response
}
