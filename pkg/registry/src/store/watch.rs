//! Watch.

use std::{sync::Arc, time::Duration};

use copepod_api::{ApiResult, FieldError, FieldErrors, FieldPath};
use copepod_store::{Delivery, Entry, EventKind, Filter, Start, StoreError, WatchRequest, Watcher};
use rand::RngExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Store,
    read::{refuse, revision},
    selection::selection,
};
use crate::{
    error::{from_store, unreasoned},
    object::{Object, WatchItem, WatchKind},
    request::{ListOptions, RequestContext},
    row::Row,
};

/// Shortest life of a watch without a timeout of its own; the longest is twice that, as upstream's.
const LIFE: Duration = Duration::from_secs(30 * 60);
/// A last bookmark comes this long before the end.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

impl Store {
    /// Changes of the resource, or of one namespace.
    ///
    /// # Errors
    /// Bad selectors or options. A start that is no longer kept is an ERROR event, as upstream's.
    pub async fn watch(
        &self,
        _cx: &RequestContext,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> ApiResult<WatchStream> {
        check_watch(options)?;
        let selection = selection(&self.row, options)?;
        let wanted = revision(&options.resource_version).map_err(|why| unreasoned(&why))?;
        let start = match (options.send_initial_events, wanted) {
            (Some(true), wanted) => Start::List(wanted.unwrap_or(0)),
            (Some(false), None | Some(0)) => Start::After(self.now().await?),
            (None, None | Some(0)) => Start::Current,
            (_, Some(revision)) => Start::After(revision),
        };
        let namespace = namespace.or(selection.namespace.as_deref());
        let request = WatchRequest {
            prefix: self.row.def.key_prefix(namespace),
            start,
            filter: selection.filter,
            bookmarks: options.allow_watch_bookmarks,
        };
        let life = match options.timeout_seconds {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds),
            _ => LIFE.mul_f64(1.0 + rand::rng().random_range(0.0..1.0)),
        };
        let state = match self.core.cache.watch(request).await {
            Ok(watcher) => State::Running(Box::new(watcher)),
            Err(error @ StoreError::TooOld(..)) => State::Failed(error),
            Err(error) => return Err(from_store(&error)),
        };
        Ok(WatchStream {
            store: self.clone(),
            late: selection.late,
            pending: None,
            state,
            bookmarks: options.allow_watch_bookmarks,
            end: Instant::now() + life,
            last_bookmark: false,
        })
    }

    async fn now(&self) -> ApiResult<i64> {
        self.core.cache.fresh().await.map_err(|error| from_store(&error))
    }
}

enum State {
    Running(Box<Watcher>),
    Failed(StoreError),
    Over,
}

/// A running watch. [`next`](Self::next) may be dropped and called again at any time.
pub struct WatchStream {
    store: Store,
    /// What can be told only of converted entries.
    late: Filter,
    /// An event that is being converted.
    pending: Option<Delivery>,
    state: State,
    bookmarks: bool,
    end: Instant,
    last_bookmark: bool,
}

impl std::fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchStream").field("row", &self.store.row).finish_non_exhaustive()
    }
}

impl WatchStream {
    /// The next event; `None` when the watch has ended (its time is up, or after an ERROR event).
    pub async fn next(&mut self) -> Option<WatchItem> {
        let item = match &self.state {
            State::Over => return None,
            State::Failed(error) => WatchItem::error(&from_store(error)),
            State::Running(_) => self.running().await?,
        };
        if item.kind == WatchKind::Error {
            self.state = State::Over;
        }
        Some(item)
    }

    async fn running(&mut self) -> Option<WatchItem> {
        let last_call = self.end.checked_sub(LAST_BOOKMARK).unwrap_or(self.end);
        loop {
            // Kept here while it is converted, because this future may be dropped meanwhile.
            if let Some(delivery) = &self.pending {
                let item = convert(&self.store, &self.late, delivery).await;
                self.pending = None;
                match item {
                    Some(item) => return Some(item),
                    None => continue,
                }
            }
            let State::Running(watcher) = &mut self.state else { return None };
            let wants_last = self.bookmarks && !self.last_bookmark;
            tokio::select! {
                event = watcher.next() => match event {
                    Ok(delivery) if self.store.row.webhook.is_some() => self.pending = Some(delivery),
                    event => return Some(render(&self.store.row, event)),
                },
                () = tokio::time::sleep_until(last_call), if wants_last => {
                    self.last_bookmark = true;
                    if let Some(bookmark) = watcher.bookmark_now() {
                        return Some(render(&self.store.row, Ok(bookmark)));
                    }
                }
                () = tokio::time::sleep_until(self.end) => {
                    self.state = State::Over;
                    return None;
                }
            }
        }
    }

    /// An event that is there already, if any: lets a writer fill its buffer before it flushes.
    pub fn try_next(&mut self) -> Option<WatchItem> {
        if self.store.row.webhook.is_some() {
            return None;
        }
        let State::Running(watcher) = &mut self.state else { return None };
        match watcher.try_next() {
            Ok(None) => None,
            Ok(Some(event)) => Some(render(&self.store.row, Ok(event))),
            Err(error) => {
                self.state = State::Over;
                Some(WatchItem::error(&from_store(&error)))
            }
        }
    }
}

/// An event in this row's version; `None` when nothing changed for this watch.
async fn convert(store: &Store, late: &Filter, delivery: &Delivery) -> Option<WatchItem> {
    let Some(entry) = &delivery.entry else { return Some(render(&store.row, Ok(delivery.clone()))) };
    let mut entries = vec![Arc::clone(entry)];
    entries.extend(delivery.before.as_ref().filter(|_| late.is_some()).cloned());
    let mut converted = match store.converted(entries).await {
        Ok(converted) => converted.into_iter(),
        Err(error) => return Some(WatchItem::error(&error)),
    };
    let mut delivery = Delivery { entry: converted.next(), before: converted.next(), ..delivery.clone() };
    if let Some(wanted) = late {
        let matches = |entry: &Option<Arc<Entry>>| entry.as_ref().is_some_and(|entry| wanted(entry));
        match (delivery.kind, matches(&delivery.before), matches(&delivery.entry)) {
            (EventKind::Modified, false, true) => delivery.kind = EventKind::Added,
            (EventKind::Modified, true, false) => {
                delivery.kind = EventKind::Deleted;
                delivery.entry = delivery.before.take();
            }
            (_, _, false) => return None,
            _ => {}
        }
    }
    Some(render(&store.row, Ok(delivery)))
}

fn render(row: &Arc<Row>, event: Result<Delivery, StoreError>) -> WatchItem {
    let delivery = match event {
        Ok(delivery) => delivery,
        Err(error) => return WatchItem::error(&from_store(&error)),
    };
    let kind = match delivery.kind {
        EventKind::Added => WatchKind::Added,
        EventKind::Modified => WatchKind::Modified,
        EventKind::Deleted => WatchKind::Deleted,
        EventKind::Bookmark => WatchKind::Bookmark,
    };
    let Some(entry) = &delivery.entry else {
        return WatchItem { kind, object: Object::other(bookmark(row, &delivery)) };
    };
    match Object::stored(row, entry, delivery.revision) {
        Ok(object) => WatchItem { kind, object },
        Err(error) => WatchItem::error(&error),
    }
}

fn bookmark(row: &Row, delivery: &Delivery) -> Value {
    let gvk = row.def.gvk();
    let mut object = json!({
        "kind": gvk.kind,
        "apiVersion": gvk.api_version(),
        "metadata": {"resourceVersion": delivery.revision.to_string()},
    });
    if delivery.initial_end {
        object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    object
}

/// Options that contradict each other.
fn check_watch(options: &ListOptions) -> ApiResult<()> {
    let field = FieldPath::new("resourceVersionMatch");
    let chosen = options.resource_version_match.as_str();
    let mut errors = FieldErrors::new();
    if options.send_initial_events.is_some() && chosen != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(&field, why));
    }
    if !chosen.is_empty() {
        if options.send_initial_events.is_none() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(&field, why));
        }
        if chosen != "NotOlderThan" {
            errors.push(FieldError::not_supported(&field, chosen, &["NotOlderThan"]));
        }
    }
    if !options.continue_.is_empty() {
        let why = "resourceVersionMatch is forbidden when continue is provided";
        errors.push(FieldError::forbidden(&field, why));
    }
    refuse(&errors)
}
