//! Keeps a cache in step: a streaming list where the server can, list and watch where it cannot, and again from the
//! last revision whenever a watch ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Informer;
use super::store::Entry;
use crate::verbs::{ListMeta, null_is_empty};
use crate::watch::{EventType, RawEvent, Watch, parse};
use crate::{Client, ClientError, Labels, ListOptions, ObjectKey, Result, WatchOptions};

/// Back-off between failed attempts. Short, because the server is usually on this machine and restarts within seconds.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Longest back-off while there is no server at all: an attempt costs little, and waiting costs start-up time.
const ABSENT: Duration = Duration::from_millis(500);
/// A watch that ended this soon counts as a failure, so that a server that refuses politely is not hammered.
const TOO_SHORT: Duration = Duration::from_secs(1);
const PAGE: u32 = 500;
/// The bookmark with this annotation closes the initial events of a streaming list.
const INITIAL_END: &str = "k8s.io/initial-events-end";
const META_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const META_ITEM: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// What the cache itself reads of an object.
#[derive(Deserialize, Default)]
struct Head {
    #[serde(default)]
    metadata: HeadMeta,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct HeadMeta {
    name: String,
    namespace: String,
    uid: Box<str>,
    resource_version: Box<str>,
    deletion_timestamp: Option<Box<str>>,
    annotations: Option<Labels>,
}

#[derive(Deserialize)]
struct RawList<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default = "Vec::new", borrow, deserialize_with = "null_is_empty")]
    items: Vec<&'a RawValue>,
}

/// Where the following stands between two attempts.
struct Position {
    /// Last revision seen; empty before the first full set and after it was lost.
    revision: String,
    /// Whether the server is believed to support streaming lists.
    streaming: bool,
}

pub(super) async fn run<T>(informer: &Informer<T>, client: &Client, shutdown: &CancellationToken)
where
    T: DeserializeOwned + Send + Sync + 'static,
{
    let mut position = Position { revision: String::new(), streaming: true };
    let mut failures = 0_u32;
    loop {
        let started = Instant::now();
        let mut longest = BACKOFF.1;
        let result = tokio::select! {
            () = shutdown.cancelled() => return,
            result = attempt(informer, client, &mut position) => result,
        };
        let resource = &informer.config().resource;
        match result {
            Ok(()) if started.elapsed() >= TOO_SHORT => failures = 0,
            Ok(()) => failures += 1,
            Err(error) if error.expired() => {
                tracing::debug!(%resource, "revision is gone, listing again");
                position.revision.clear();
                failures += 1;
            }
            Err(error) => {
                if started.elapsed() >= TOO_SHORT {
                    failures = 0;
                }
                failures += 1;
                if matches!(error, ClientError::Transport { .. }) {
                    longest = ABSENT;
                }
                if failures == 3 {
                    tracing::warn!(%resource, error = crate::chain(&error), "cannot follow, keep trying");
                } else {
                    tracing::debug!(%resource, error = crate::chain(&error), "cannot follow, will try again");
                }
            }
        }
        if failures > 0 {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(backoff(failures, longest)) => {}
            }
        }
    }
}

fn backoff(failures: u32, longest: Duration) -> Duration {
    let base = BACKOFF.0.saturating_mul(1_u32 << failures.saturating_sub(1).min(10)).min(longest);
    base.mul_f64(rand::random_range(0.8..1.2))
}

/// Gets a full set if there is none, then follows one watch to its end.
async fn attempt<T>(informer: &Informer<T>, client: &Client, position: &mut Position) -> Result<()>
where
    T: DeserializeOwned + Send + Sync + 'static,
{
    if position.revision.is_empty() {
        if position.streaming {
            match stream_list(informer, client, position).await {
                Ok(watch) => return follow(informer, watch, position).await,
                Err(ClientError::Api(error)) if matches!(error.code(), 400 | 422) => {
                    position.streaming = false;
                }
                Err(error) => return Err(error),
            }
        }
        full_list(informer, client, position).await?;
    }
    let options = WatchOptions { resource_version: position.revision.clone(), ..watch_options(informer) };
    let watch = open(informer, client, &options).await?;
    follow(informer, watch, position).await
}

fn watch_options<T>(informer: &Informer<T>) -> WatchOptions {
    let config = &informer.inner.config;
    WatchOptions {
        label_selector: config.label_selector.clone(),
        field_selector: config.field_selector.clone(),
        // Spread, so that the watches of one process do not all end together.
        timeout_seconds: rand::random_range(300..600),
        ..WatchOptions::default()
    }
}

async fn open<T>(informer: &Informer<T>, client: &Client, options: &WatchOptions) -> Result<Watch> {
    let config = &informer.inner.config;
    let accept = if config.metadata_only { META_ITEM } else { "application/json" };
    client.watch_as(&config.resource.collection(&config.namespace), options, accept).await
}

async fn stream_list<T: DeserializeOwned>(
    informer: &Informer<T>,
    client: &Client,
    position: &mut Position,
) -> Result<Watch> {
    let options = WatchOptions { send_initial_events: true, ..watch_options(informer) };
    let mut watch = open(informer, client, &options).await?;
    let mut full = BTreeMap::new();
    while let Some(line) = watch.next().await? {
        let event = parse(&line)?;
        if event.event == EventType::Bookmark {
            let head = head(event.object)?;
            if head.annotations.as_ref().is_some_and(|a| a.contains_key(INITIAL_END)) {
                position.revision = head.resource_version.into_string();
                publish(informer, full, &position.revision);
                return Ok(watch);
            }
        } else if let Some((key, entry)) = read(informer, event.object)? {
            if event.event == EventType::Deleted {
                full.remove(&key);
            } else {
                full.insert(key, entry);
            }
        }
    }
    Err(ClientError::Config("the server ended a streaming list before its end".to_owned()))
}

async fn full_list<T: DeserializeOwned>(
    informer: &Informer<T>,
    client: &Client,
    position: &mut Position,
) -> Result<()> {
    let config = &informer.inner.config;
    let target = config.resource.collection(&config.namespace);
    let accept = if config.metadata_only { META_LIST } else { "application/json" };
    let mut options = ListOptions {
        label_selector: config.label_selector.clone(),
        field_selector: config.field_selector.clone(),
        limit: PAGE,
        ..ListOptions::default()
    };
    let mut full = BTreeMap::new();
    loop {
        let body = client.list_raw(&target, &options, accept).await?;
        let page: RawList<'_> = serde_json::from_slice(&body).map_err(|e| bad(&target, e))?;
        for item in page.items {
            full.extend(read(informer, item)?);
        }
        if page.metadata.continue_token.is_empty() {
            position.revision = page.metadata.resource_version;
            break;
        }
        options.continue_token = page.metadata.continue_token;
    }
    publish(informer, full, &position.revision);
    Ok(())
}

fn bad(target: &crate::Target, source: serde_json::Error) -> ClientError {
    ClientError::Body { what: target.path().to_owned(), source }
}

fn publish<T>(informer: &Informer<T>, full: BTreeMap<ObjectKey, Entry<T>>, revision: &str) {
    informer.apply(|store| store.replace(full, revision));
    informer.inner.synced.send_replace(true);
}

async fn follow<T: DeserializeOwned>(
    informer: &Informer<T>,
    mut watch: Watch,
    position: &mut Position,
) -> Result<()> {
    while let Some(line) = watch.next().await? {
        let revision = take(informer, &parse(&line)?)?;
        if !revision.is_empty() {
            position.revision = revision.into_string();
        }
    }
    Ok(())
}

/// Brings one event into the cache and returns its revision.
fn take<T: DeserializeOwned>(informer: &Informer<T>, event: &RawEvent<'_>) -> Result<Box<str>> {
    let head = head(event.object)?;
    let revision = head.resource_version.clone();
    let read = if event.event == EventType::Bookmark { None } else { read(informer, event.object)? };
    informer.apply(|store| {
        store.set_revision(&revision);
        match (event.event, read) {
            (EventType::Added | EventType::Modified, Some((key, entry))) => store.upsert(key, entry),
            (EventType::Deleted, last) => store
                .remove(&ObjectKey::new(&head.namespace, &head.name), last.map(|(_, entry)| entry.object)),
            _ => Vec::new(),
        }
    });
    Ok(revision)
}

/// Reads an object. In Kubernetes' JSON null is the same as absent, which serde's defaults do not know, so an object
/// that does not fit is read once more without its nulls.
fn decode<T: DeserializeOwned>(object: &RawValue) -> serde_json::Result<T> {
    serde_json::from_str(object.get()).or_else(|_| {
        let mut tree: serde_json::Value = serde_json::from_str(object.get())?;
        drop_nulls(&mut tree);
        serde_json::from_value(tree)
    })
}

fn drop_nulls(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        serde_json::Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn head(object: &RawValue) -> Result<HeadMeta> {
    let head: Head = serde_json::from_str(object.get())
        .map_err(|source| ClientError::Body { what: "an object's metadata".to_owned(), source })?;
    Ok(head.metadata)
}

/// An object that does not have the expected form is reported and left out: one bad object must not stop the rest.
fn read<T: DeserializeOwned>(
    informer: &Informer<T>,
    object: &RawValue,
) -> Result<Option<(ObjectKey, Entry<T>)>> {
    let head = head(object)?;
    let key = ObjectKey::new(&head.namespace, &head.name);
    match decode(object) {
        Ok(value) => {
            let entry = Entry {
                object: Arc::new(value),
                uid: head.uid,
                revision: head.resource_version,
                deleting: head.deletion_timestamp.is_some(),
            };
            Ok(Some((key, entry)))
        }
        Err(error) => {
            tracing::error!(resource = %informer.inner.config.resource, %key, %error, "object left out");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_absent() {
        #[derive(serde::Deserialize, Default, PartialEq, Debug)]
        #[serde(default)]
        struct Slice {
            ports: Vec<u16>,
            name: String,
        }
        let raw =
            RawValue::from_string(r#"{"ports":null,"name":"x","deep":[{"a":null}]}"#.to_owned()).unwrap();
        assert_eq!(decode::<Slice>(&raw).unwrap(), Slice { ports: Vec::new(), name: "x".to_owned() });
        let wrong = RawValue::from_string(r#"{"ports":"x"}"#.to_owned()).unwrap();
        assert!(decode::<Slice>(&wrong).is_err());
    }
}
