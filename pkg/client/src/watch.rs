//! A watch: the lines of a long answer, one event each.

use bytes::{Buf, Bytes, BytesMut};
use copepod_api::{ApiError, Reason, Status};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client::{Call, Client};
use crate::options::WatchOptions;
use crate::{ClientError, Result, Target};

/// Longer than any object the store accepts, with room for encoding.
const MAX_EVENT: usize = 16 * 1024 * 1024;
/// A buffer that grew beyond this for one big event is given back afterwards.
const KEEP_BUFFER: usize = 64 * 1024;

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventType {
    /// It came into being, or into the selection.
    Added,
    /// It changed.
    Modified,
    /// It is gone, or out of the selection.
    Deleted,
    /// Nothing happened up to the revision it carries.
    Bookmark,
    /// The watch cannot go on; the object is a Status.
    Error,
}

/// One line of a watch; the object stays encoded.
#[derive(Debug, Deserialize)]
pub struct RawEvent<'a> {
    /// What happened.
    #[serde(rename = "type")]
    pub event: EventType,
    /// The object, encoded.
    #[serde(borrow)]
    pub object: &'a RawValue,
}

/// An open watch.
#[derive(Debug)]
pub struct Watch {
    body: Incoming,
    buffer: BytesMut,
    /// How far `buffer` has been searched for a line end.
    searched: usize,
    path: String,
}

impl Client {
    /// Opens a watch on a collection.
    ///
    /// # Errors
    /// The server's Status, or a transport error.
    pub async fn watch(&self, target: &Target, options: &WatchOptions) -> Result<Watch> {
        self.watch_as(target, options, "application/json").await
    }

    pub(crate) async fn watch_as(
        &self,
        target: &Target,
        options: &WatchOptions,
        accept: &'static str,
    ) -> Result<Watch> {
        let query = options.query();
        let response = self.open(Call { accept, ..Call::get(target.path(), query.as_str()) }).await?;
        let path = target.path().to_owned();
        Ok(Watch { body: response.into_body(), buffer: BytesMut::new(), searched: 0, path })
    }
}

impl Watch {
    /// The next line, or `None` when the server has ended the watch. Parse it with [`parse`].
    ///
    /// # Errors
    /// When the connection breaks or a line is impossibly long.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            if self.buffer.len() > MAX_EVENT {
                return Err(ClientError::EventTooLong { limit: MAX_EVENT });
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(source)) => {
                    return Err(ClientError::Transport {
                        method: "WATCH".to_owned(),
                        path: self.path.clone(),
                        source: source.into(),
                    });
                }
            }
        }
    }

    fn take_line(&mut self) -> Option<Bytes> {
        let rest = self.buffer.get(self.searched..)?;
        let Some(end) = rest.iter().position(|b| *b == b'\n') else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = Bytes::copy_from_slice(self.buffer.get(..self.searched + end)?);
        self.buffer.advance(self.searched + end + 1);
        self.searched = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > KEEP_BUFFER {
            self.buffer = BytesMut::new();
        }
        Some(line)
    }
}

/// Reads one line; an event of type `ERROR` becomes the error it carries.
///
/// # Errors
/// The Status of an error event, or a decoding error.
pub fn parse(line: &[u8]) -> Result<RawEvent<'_>> {
    let bad = |source| ClientError::Body { what: "a watch event".to_owned(), source };
    let event: RawEvent<'_> = serde_json::from_slice(line).map_err(bad)?;
    if event.event == EventType::Error {
        let status: Status = serde_json::from_str(event.object.get()).map_err(bad)?;
        if status.reason.is_empty() {
            return Err(ClientError::Api(ApiError::new(Reason::InternalError, status.message)));
        }
        return Err(ClientError::Api(ApiError::from_status(status)));
    }
    Ok(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_keep_their_object_encoded_and_errors_surface() {
        let event = parse(br#"{"type":"ADDED","object":{"a": 1}}"#).unwrap();
        assert_eq!((event.event, event.object.get()), (EventType::Added, r#"{"a": 1}"#));
        let gone =
            br#"{"type":"ERROR","object":{"kind":"Status","reason":"Expired","code":410,"message":"old"}}"#;
        assert!(parse(gone).unwrap_err().expired());
        assert!(parse(br#"{"type":"NEWS","object":{}}"#).is_err());
    }
}
