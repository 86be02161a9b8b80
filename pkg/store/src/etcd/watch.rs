//! etcd's watch as a stream of batches, with a request for progress while it is quiet: it moves the mirror's
//! revision on and shows a connection that is dead without knowing it.

use std::time::Duration;

use bytes::Bytes;
use etcd_client::{Event, EventType, WatchResponse, WatchStream};
use futures::{StreamExt as _, stream};

use super::failure;
use crate::{
    backend::{Batch, BatchStream, Change, Revision},
    error::StoreError,
};

/// Silence after which progress is asked for.
const QUIET: Duration = Duration::from_secs(30);
/// How long the answer may take.
const ANSWER: Duration = Duration::from_secs(15);

struct Watch {
    stream: WatchStream,
    from: Revision,
    ended: bool,
}

/// The stream of an opened watch.
pub(super) fn batches(stream: WatchStream, from: Revision) -> BatchStream {
    stream::unfold(Watch { stream, from, ended: false }, step).boxed()
}

async fn step(mut watch: Watch) -> Option<(Result<Batch, StoreError>, Watch)> {
    while !watch.ended {
        match next(&mut watch).await {
            Ok(None) => {}
            Ok(Some(batch)) => return Some((Ok(batch), watch)),
            Err(error) => {
                watch.ended = true;
                return Some((Err(error), watch));
            }
        }
    }
    None
}

async fn next(watch: &mut Watch) -> Result<Option<Batch>, StoreError> {
    let Ok(message) = tokio::time::timeout(QUIET, watch.stream.message()).await else {
        watch.stream.request_progress().await.map_err(|e| failure(&e))?;
        let answer = tokio::time::timeout(ANSWER, watch.stream.message()).await;
        let Ok(message) = answer else {
            return Err(StoreError::Backend("the watch does not answer".to_owned()));
        };
        return read(message, watch.from);
    };
    read(message, watch.from)
}

fn read(
    message: Result<Option<WatchResponse>, etcd_client::Error>,
    from: Revision,
) -> Result<Option<Batch>, StoreError> {
    let Some(response) = message.map_err(|e| failure(&e))? else {
        return Err(StoreError::Backend("the watch was closed".to_owned()));
    };
    if response.compact_revision() > 0 {
        return Err(StoreError::Compacted(from));
    }
    if response.canceled() {
        return Err(StoreError::Backend(format!("the watch was cancelled: {}", response.cancel_reason())));
    }
    if response.created() {
        return Ok(None);
    }
    let changes: Vec<Change> = response.events().iter().filter_map(change).collect();
    // With events the header may be ahead of them; without it is a promise that nothing is missing.
    let revision = match changes.last() {
        Some(last) => last.revision,
        None => response.header().map_or(0, |header| header.revision()),
    };
    Ok(Some(Batch { revision, changes }))
}

fn change(event: &Event) -> Option<Change> {
    let kv = event.kv()?;
    let key = kv.key_str().ok()?.into();
    let value = (event.event_type() == EventType::Put).then(|| Bytes::copy_from_slice(kv.value()));
    Some(Change { key, value, revision: kv.mod_revision() })
}
