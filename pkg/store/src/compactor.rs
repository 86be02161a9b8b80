//! Compaction of old revisions, upstream's way: every period the revision seen a period ago is compacted, guarded
//! by a key that several servers share so that only one of them does it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::{
    backend::{Backend, Cas, Revision},
    cache::Cache,
    error::StoreError,
};

/// The key that servers agree through.
pub const COMPACT_KEY: &str = "compact_rev_key";

/// What a server remembers between two rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Memory {
    /// Revision of the guard key.
    guard: Revision,
    /// The store's revision at the last round: what the next compacts.
    seen: Revision,
}

/// Compacts every `period` until `shutdown`. Errors are logged; the next round tries again.
pub async fn run(
    backend: Arc<dyn Backend>,
    cache: Arc<Cache>,
    period: Duration,
    shutdown: CancellationToken,
) {
    let mut memory = Memory::default();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(period) => {}
        }
        match round(backend.as_ref(), memory).await {
            Ok((next, compacted)) => {
                memory = next;
                if let Some(revision) = compacted {
                    tracing::debug!(revision, "compacted");
                    cache.note_compacted(revision);
                }
            }
            Err(error) => tracing::warn!(%error, "compaction failed"),
        }
    }
}

/// One round: takes the guard key, and compacts what it saw last time when nobody else took the key meanwhile.
async fn round(backend: &dyn Backend, memory: Memory) -> Result<(Memory, Option<Revision>), StoreError> {
    let value = Bytes::from(memory.seen.to_string());
    match backend.put(COMPACT_KEY, value, memory.guard, None).await? {
        Cas::Conflict(current) => {
            // Another server compacts, or this one has just started: take over from the next round on.
            let (_, revision) = backend.get(COMPACT_KEY).await?;
            Ok((Memory { guard: current.map_or(0, |kv| kv.revision), seen: revision }, None))
        }
        Cas::Done(revision) => {
            let next = Memory { guard: revision, seen: revision };
            if memory.seen == 0 {
                return Ok((next, None));
            }
            match backend.compact(memory.seen).await {
                Ok(()) | Err(StoreError::Compacted(_)) => Ok((next, Some(memory.seen))),
                Err(error) => Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{backend::RangeRequest, memory::MemoryBackend};

    async fn put(backend: &MemoryBackend, key: &str, expected: Revision) -> Revision {
        match backend.put(key, Bytes::from_static(b"x"), expected, None).await.unwrap() {
            Cas::Done(revision) => revision,
            Cas::Conflict(_) => panic!("conflict on {key}"),
        }
    }

    #[tokio::test]
    async fn each_round_compacts_what_the_one_before_saw() {
        let backend = MemoryBackend::default();
        let first = put(&backend, "a", 0).await;
        let (memory, done) = round(&backend, Memory::default()).await.unwrap();
        assert_eq!(done, None);
        put(&backend, "a", first).await;
        let (memory, done) = round(&backend, memory).await.unwrap();
        assert!(done.is_some_and(|revision| revision > first));
        let old = RangeRequest { start: "a".into(), end: "b".into(), limit: 0, revision: first };
        assert_eq!(backend.range(old).await, Err(StoreError::Compacted(first)));
        // Another server has moved the key: this one only takes note.
        let (current, _) = backend.get(COMPACT_KEY).await.unwrap();
        put(&backend, COMPACT_KEY, current.unwrap().revision).await;
        let (_, done) = round(&backend, memory).await.unwrap();
        assert_eq!(done, None);
    }
}
