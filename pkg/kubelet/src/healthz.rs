//! `/healthz` on loopback, without TLS.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::KubeletError;

/// Says whether the kubelet is well; the text names what is not.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Serves until shutdown.
///
/// # Errors
/// When the address cannot be bound.
pub async fn serve(address: SocketAddr, check: Check, shutdown: CancellationToken) -> Result<(), KubeletError> {
    let listener =
        TcpListener::bind(address).await.map_err(|source| KubeletError::Listen { address, source })?;
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
