//! Lists at an exact revision: from the objects, from the objects with the history undone, or from the backend.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use super::{
    Cache, Filter,
    bucket::{Bucket, State},
};
use crate::{
    backend::{RangeRequest, Revision, prefix_end},
    entry::Entry,
    error::StoreError,
};

/// The revision a list wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The newest: at least every write through this server.
    Newest,
    /// Whatever is there.
    Any,
    /// At least this one.
    NotOlderThan(Revision),
    /// Exactly this one.
    Exact(Revision),
}

/// What to list.
pub struct ListRequest<'a> {
    /// Prefix of the keys: a resource's, or one namespace's; ends with a slash.
    pub prefix: &'a str,
    /// Where to start, below the prefix; empty for the beginning.
    pub start: &'a str,
    /// At which revision.
    pub at: At,
    /// Most entries; 0 is all.
    pub limit: usize,
    /// Which entries.
    pub filter: &'a Filter,
}

impl std::fmt::Debug for ListRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListRequest")
            .field("prefix", &self.prefix)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

/// A page of a list.
#[derive(Debug, Clone, Default)]
pub struct ListPage {
    /// The revision of the list.
    pub revision: Revision,
    /// The entries in the order of their keys.
    pub entries: Vec<Arc<Entry>>,
    /// Where the next page starts, below the prefix.
    pub next: Option<String>,
    /// How many entries come after this page; unknown with a filter.
    pub remaining: Option<usize>,
}

impl Cache {
    /// Lists.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] for an exact revision that is gone, [`StoreError::TooLarge`] for one to come,
    /// backend errors for old revisions.
    pub async fn list(&self, request: &ListRequest<'_>) -> Result<ListPage, StoreError> {
        match request.at {
            At::Newest => self.fresh().await?,
            At::Any => self.at_least(1).await?,
            At::NotOlderThan(revision) | At::Exact(revision) => self.at_least(revision).await?,
        };
        let bucket = self.bucket(request.prefix);
        let At::Exact(wanted) = request.at else {
            // The revision is loaded first: what is read after it is complete up to it, and the answer's revision
            // is raised to the bucket's last change, which the page contains.
            let revision = self.revision();
            let state = bucket.state.read();
            return Ok(page(request, revision.max(state.last), current(&state, request)));
        };
        if wanted < self.compacted.load(Ordering::Acquire) {
            return Err(StoreError::Compacted(wanted));
        }
        if let Some(page) = past(&bucket, request, wanted) {
            return Ok(page);
        }
        self.list_backend(request, wanted).await
    }

    /// A list at a revision below the history.
    async fn list_backend(
        &self,
        request: &ListRequest<'_>,
        revision: Revision,
    ) -> Result<ListPage, StoreError> {
        let (end, mut start) = (prefix_end(request.prefix), format!("{}{}", request.prefix, request.start));
        let mut out = ListPage { revision, ..ListPage::default() };
        loop {
            let chunk = if request.limit == 0 { 500 } else { request.limit.max(100) };
            let range = RangeRequest { start, end: end.clone(), limit: chunk, revision };
            let read = self.backend.range(range).await?;
            let count = read.count;
            for (at, kv) in read.items.iter().enumerate() {
                if request.limit > 0 && out.entries.len() == request.limit {
                    out.next = kv.key.strip_prefix(request.prefix).map(str::to_owned);
                    out.remaining = request.filter.is_none().then(|| count - at);
                    return Ok(out);
                }
                let entry = Arc::new(Entry::new(kv.clone()));
                if request.filter.as_ref().is_none_or(|wanted| wanted(&entry)) {
                    out.entries.push(entry);
                }
            }
            match read.items.last() {
                Some(last) if read.more => start = format!("{}\0", last.key),
                _ => return Ok(out),
            }
        }
    }
}

/// The objects from the start of the request on.
fn current<'a>(
    state: &'a State,
    request: &ListRequest<'a>,
) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
    state.below(request.prefix, &format!("{}{}", request.prefix, request.start))
}

/// The objects as they were at `revision`, when the history reaches back that far.
fn past(bucket: &Bucket, request: &ListRequest<'_>, revision: Revision) -> Option<ListPage> {
    let state = bucket.state.read();
    if state.last <= revision {
        return Some(page(request, revision, current(&state, request)));
    }
    if revision < state.floor {
        return None;
    }
    let start = format!("{}{}", request.prefix, request.start);
    let mut entries: BTreeMap<&str, &Arc<Entry>> = current(&state, request).map(|e| (e.key(), e)).collect();
    for record in state.history.iter().rev().take_while(|record| record.revision > revision) {
        let key = record.key();
        if key < start.as_str() || !key.starts_with(request.prefix) {
            continue;
        }
        match &record.before {
            Some(before) => entries.insert(before.key(), before),
            None => entries.remove(key),
        };
    }
    Some(page(request, revision, entries.into_values()))
}

/// Cuts a page out of the entries.
fn page<'a>(
    request: &ListRequest<'_>,
    revision: Revision,
    entries: impl Iterator<Item = &'a Arc<Entry>>,
) -> ListPage {
    let mut out = ListPage { revision, ..ListPage::default() };
    let mut entries = entries.filter(|entry| request.filter.as_ref().is_none_or(|wanted| wanted(entry)));
    if request.limit == 0 {
        out.entries = entries.cloned().collect();
        return out;
    }
    out.entries = entries.by_ref().take(request.limit).cloned().collect();
    let Some(next) = entries.next() else { return out };
    out.next = next.key().strip_prefix(request.prefix).map(str::to_owned);
    out.remaining = request.filter.is_none().then(|| 1 + entries.count());
    out
}
