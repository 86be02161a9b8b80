//! Bodies of answers: whole, streamed, or none.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use http_body::{Frame, SizeHint};

/// Why a streamed body ended early; the connection is cut so that the client notices.
pub(crate) type StreamError = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer.
pub(crate) enum Body {
    /// Known as a whole; empty bytes are no body.
    Whole(Option<Bytes>),
    /// Chunks as they come; every chunk is flushed.
    Stream(BoxStream<'static, Result<Bytes, StreamError>>),
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(bytes) => write!(f, "Whole({} bytes)", bytes.as_ref().map_or(0, Bytes::len)),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl Body {
    /// No body.
    pub(crate) fn empty() -> Self {
        Self::Whole(None)
    }

    /// A body known as a whole.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()).filter(|b| !b.is_empty()))
    }

    /// The chunks of `stream`.
    pub(crate) fn stream(
        stream: impl futures::Stream<Item = Result<Bytes, StreamError>> + Send + 'static,
    ) -> Self {
        Self::Stream(stream.boxed())
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Self::Stream(stream) => stream.poll_next_unpin(cx).map(|next| next.map(|r| r.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
