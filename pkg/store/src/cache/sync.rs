//! The task that fills the mirror and keeps it current.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::StreamExt as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Bucket, Cache, ROOT, bucket_name};
use crate::{
    backend::{Batch, Change, KeyValue, RangeRequest, Revision, prefix_end},
    entry::Entry,
    error::StoreError,
};

/// Keys a page of the first fill.
const PAGE: usize = 500;
/// How often aged history is dropped.
const SWEEP: Duration = Duration::from_secs(60);

/// Keeps the mirror current until `shutdown`. After a lost watch it goes on where it was, or fills anew when that
/// revision has been compacted.
pub(super) async fn run(cache: Arc<Cache>, shutdown: CancellationToken) {
    let mut delay = Duration::ZERO;
    while !shutdown.is_cancelled() {
        let round = async {
            tokio::time::sleep(delay).await;
            let started = Instant::now();
            (follow(&cache).await, started)
        };
        let (error, started) = tokio::select! {
            () = shutdown.cancelled() => return,
            result = round => result,
        };
        // A watch that held for a while starts the back-off anew.
        delay = match (started.elapsed() > Duration::from_secs(10), delay.is_zero()) {
            (true, _) => Duration::ZERO,
            (false, true) => Duration::from_millis(50),
            (false, false) => (delay * 2).min(Duration::from_secs(2)),
        };
        tracing::warn!(%error, retry = ?delay, "the watch of the store ended");
    }
}

/// Fills if needed, then follows the watch until it fails.
async fn follow(cache: &Cache) -> StoreError {
    match try_follow(cache).await {
        Ok(()) => StoreError::Backend("the watch was closed".to_owned()),
        Err(StoreError::Compacted(revision)) => {
            // What happened since is unknown: start anew.
            cache.filled.store(0, Ordering::Release);
            StoreError::Compacted(revision)
        }
        Err(error) => error,
    }
}

async fn try_follow(cache: &Cache) -> Result<(), StoreError> {
    if cache.filled.load(Ordering::Acquire) == 0 {
        fill(cache).await?;
    } else {
        // A store that went back (restored from an older copy) is another store.
        let (_, revision) = cache.backend.get(ROOT).await?;
        if revision < cache.revision() {
            fill(cache).await?;
        }
    }
    let mut batches = cache.backend.watch(ROOT, cache.revision() + 1).await?;
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        tokio::select! {
            batch = batches.next() => match batch {
                Some(batch) => apply(cache, batch?),
                None => return Ok(()),
            },
            _ = sweep.tick() => {
                let now = Instant::now();
                cache.buckets.read().values().for_each(|bucket| bucket.sweep(now));
            }
        }
    }
}

/// Takes in a batch; the revision moves last.
fn apply(cache: &Cache, batch: Batch) {
    for Change { key, value, revision } in batch.changes {
        let bucket = cache.bucket(&key);
        let after = value.map(|value| Arc::new(Entry::new(KeyValue { key: key.clone(), value, revision })));
        if let Some(problem) = after.as_ref().and_then(|entry| entry.problem()) {
            tracing::error!(%key, problem, "object cannot be read");
        }
        bucket.apply(&key, after, revision);
    }
    cache.revision.send_if_modified(|current| {
        let moved = batch.revision > *current;
        *current = batch.revision.max(*current);
        moved
    });
}

/// Reads everything at one revision.
async fn fill(cache: &Cache) -> Result<(), StoreError> {
    let (entries, revision) = read_all(cache).await?;
    let mut groups: HashMap<Box<str>, Vec<Arc<Entry>>> = HashMap::new();
    for entry in entries {
        groups.entry(bucket_name(entry.key()).into()).or_default().push(entry);
    }
    {
        let mut buckets = cache.buckets.write();
        for name in groups.keys() {
            buckets.entry(name.clone()).or_insert_with(|| Arc::new(Bucket::new(revision)));
        }
        for (name, bucket) in buckets.iter() {
            bucket.refill(groups.remove(name).unwrap_or_default(), revision);
        }
    }
    cache.written.store(0, Ordering::Release);
    cache.filled.store(revision, Ordering::Release);
    cache.revision.send_replace(revision);
    tracing::info!(revision, "watch cache filled");
    Ok(())
}

async fn read_all(cache: &Cache) -> Result<(Vec<Arc<Entry>>, Revision), StoreError> {
    let end = prefix_end(ROOT);
    let (mut start, mut revision, mut entries) = (ROOT.to_owned(), 0, Vec::new());
    loop {
        let request = RangeRequest { start, end: end.clone(), limit: PAGE, revision };
        let page = cache.backend.range(request).await?;
        if revision == 0 {
            revision = page.revision;
        }
        let Some(last) = page.items.last() else { return Ok((entries, revision)) };
        start = format!("{}\0", last.key);
        entries.extend(page.items.into_iter().map(|kv| Arc::new(Entry::new(kv))));
        if !page.more {
            return Ok((entries, revision));
        }
    }
}
