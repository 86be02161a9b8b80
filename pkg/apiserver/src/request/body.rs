//! The body of a request, which is read even when nobody wants it.

use std::time::Duration;

use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

/// How much of an unwanted body is read and dropped.
const MAX_DRAINED: usize = 12 * 1024 * 1024;
/// How long that may take.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// A request's body until somebody takes it.
///
/// An answer that is ready before the client has sent its body (a refusal, mostly) must not end the stream: HTTP/2
/// would reset it, and a client that is still sending then loses the answer. So what is never taken is drained.
#[derive(Debug)]
pub(crate) struct RequestBody(Option<Incoming>);

impl RequestBody {
    /// Holds `body`.
    pub(crate) fn new(body: Incoming) -> Self {
        Self(Some(body))
    }

    /// Hands the body over, once.
    pub(crate) fn take(&mut self) -> Option<Incoming> {
        self.0.take()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(body) = self.0.take().filter(|body| !body.is_end_stream()) {
            copepod_supervisor::spawn("drain of a request body", drain(body));
        }
    }
}

async fn drain(mut body: Incoming) {
    let read = async {
        let mut left = MAX_DRAINED;
        // An error means that the client is gone, and with it the reason to read on.
        while let Some(Ok(frame)) = body.frame().await {
            let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, bytes::Bytes::len)) else { return };
            left = rest;
        }
    };
    if tokio::time::timeout(DRAIN_TIMEOUT, read).await.is_err() {
        tracing::debug!("a client did not finish sending a body that nobody wanted");
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http_body_util::Empty;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};

    use super::*;

    /// Answers before it has read anything.
    async fn serve(io: tokio::io::DuplexStream) {
        let service = service_fn(|request: http::Request<Incoming>| async move {
            drop(RequestBody::new(request.into_body()));
            Ok::<_, Infallible>(http::Response::new(Empty::<Bytes>::new()))
        });
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        server.serve_connection(TokioIo::new(io), service).await.unwrap();
    }

    #[tokio::test]
    async fn an_answer_before_the_body_leaves_the_stream_open() {
        let (near, far) = tokio::io::duplex(1 << 16);
        copepod_supervisor::spawn("server", serve(far));
        let (mut client, connection) = h2::client::handshake(near).await.unwrap();
        copepod_supervisor::spawn("client", async { drop(connection.await) });
        let request = http::Request::post("http://x/").body(()).unwrap();
        let (response, mut body) = client.send_request(request, false).unwrap();
        assert_eq!(response.await.unwrap().status(), 200);
        // A reset would show here: the server has nothing else to say on this stream.
        let reset = std::future::poll_fn(|cx| body.poll_reset(cx));
        assert!(
            tokio::time::timeout(Duration::from_millis(200), reset).await.is_err(),
            "the stream was reset"
        );
        body.send_data(Bytes::from_static(b"late"), true).unwrap();
    }
}
