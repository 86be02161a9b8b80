//! Answers.

use std::convert::Infallible;

use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// The body of every answer.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A whole body.
pub(super) fn full(data: impl Into<Bytes>) -> Body {
    Full::new(data.into()).boxed_unsync()
}

/// A body that comes in pieces; it ends when the sender is dropped.
pub(super) fn channel(capacity: usize) -> (mpsc::Sender<Bytes>, Body) {
    let (sender, receiver) = mpsc::channel(capacity);
    let frames = ReceiverStream::new(receiver).map(|data| Ok(Frame::data(data)));
    (sender, StreamBody::new(frames).boxed_unsync())
}

/// An answer of some type.
pub(super) fn answer(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Plain text; a newline ends it, as Go's `http.Error` does.
pub(super) fn text(status: StatusCode, message: &str) -> Response<Body> {
    answer(status, "text/plain; charset=utf-8", full(format!("{message}\n")))
}

/// A document as JSON.
pub(super) fn json(document: &impl serde::Serialize) -> Response<Body> {
    match serde_json::to_vec(document) {
        Ok(data) => answer(StatusCode::OK, "application/json", full(data)),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}
