//! Which resources are followed, and how discovery's changes are followed in turn.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use copepod_client::resources::{EVENTS, EVENTS_V1};
use copepod_client::{Informer, InformerConfig, Meta, ResourceRef, chain};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::Collector;
use crate::context::Context;
use crate::discovery::{Discovered, discover};
use crate::views::MetaOnly;

/// How long a resource that cannot be listed may keep the collector waiting; upstream's figure.
const PATIENCE: Duration = Duration::from_secs(30);
/// A new CRD is served a moment after it was made, so one look is not enough.
const LOOKS: [Duration; 4] =
    [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(10)];

/// The resources that are followed.
#[derive(Debug)]
pub(super) struct Monitors {
    /// By group and plural: kinds are found here for owner references too.
    known: Mutex<HashMap<(String, String), Monitor>>,
    ready: watch::Sender<bool>,
    look: Notify,
}

#[derive(Debug)]
struct Monitor {
    resource: Arc<ResourceRef>,
    stop: CancellationToken,
}

impl Default for Monitors {
    fn default() -> Self {
        Self { known: Mutex::default(), ready: watch::Sender::new(false), look: Notify::new() }
    }
}

impl Monitors {
    /// Returns once the first full picture is there.
    pub(super) async fn ready(&self) {
        drop(self.ready.subscribe().wait_for(|ready| *ready).await);
    }

    /// The resource that an owner reference names, by group and kind.
    pub(super) fn resource(&self, group: &str, kind: &str) -> Option<Arc<ResourceRef>> {
        let known = self.known.lock();
        known
            .values()
            .find(|m| m.resource.group == group && m.resource.kind == kind)
            .map(|m| Arc::clone(&m.resource))
    }
}

/// Follows discovery.
pub(super) fn spawn(context: &Context, collector: &Arc<Collector>) {
    let (context, collector) = (context.clone(), Arc::clone(collector));
    copepod_supervisor::spawn(context.name, async move {
        loop {
            let looks = if *collector.monitors.ready.borrow() { &LOOKS[..] } else { &LOOKS[..1] };
            for pause in looks {
                tokio::select! {
                    () = context.shutdown.cancelled() => return,
                    () = tokio::time::sleep(*pause) => {}
                }
                match discover(&context.client).await {
                    Ok((found, complete)) => refresh(&context, &collector, &found, complete).await,
                    Err(error) => tracing::debug!(error = chain(&error), "discovery failed"),
                }
            }
            if *collector.monitors.ready.borrow() {
                tokio::select! {
                    () = context.shutdown.cancelled() => return,
                    () = collector.monitors.look.notified() => {}
                }
            }
        }
    });
}

/// Begins to follow what is new and stops to follow what is gone (unless the list may be incomplete).
async fn refresh(context: &Context, collector: &Arc<Collector>, found: &[Discovered], complete: bool) {
    let ignored =
        |r: &ResourceRef| r.plural == "events" && (r.group == EVENTS.group || r.group == EVENTS_V1.group);
    let wanted: Vec<_> =
        found.iter().filter(|d| d.has(&["list", "watch", "delete"]) && !ignored(&d.resource)).collect();
    let id = |r: &ResourceRef| (r.group.to_string(), r.plural.to_string());
    let mut added: Vec<Informer<MetaOnly>> = Vec::new();
    {
        let mut known = collector.monitors.known.lock();
        if complete {
            known.retain(|key, monitor| {
                let keep = wanted.iter().any(|d| id(&d.resource) == *key);
                if !keep {
                    monitor.stop.cancel();
                }
                keep
            });
        }
        for found in wanted {
            if known.contains_key(&id(&found.resource)) {
                continue;
            }
            let resource = Arc::new(found.resource.clone());
            let stop = context.shutdown.child_token();
            added.extend(follow(context, collector, &resource, &stop));
            known.insert(id(&resource), Monitor { resource, stop });
        }
    }
    let all = futures::future::join_all(added.iter().map(Informer::synced));
    if tokio::time::timeout(PATIENCE, all).await.is_err() {
        tracing::warn!("some resources cannot be listed; collecting without them");
    }
    context.caches.synced().await;
    collector.monitors.ready.send_replace(true);
}

/// Feeds the graph from a shared cache, or from one of our own, which is returned.
fn follow(
    context: &Context,
    collector: &Arc<Collector>,
    resource: &Arc<ResourceRef>,
    stop: &CancellationToken,
) -> Option<Informer<MetaOnly>> {
    let definitions = matches!(&*resource.plural, "customresourcedefinitions" | "apiservices");
    let (collector, kind) = (Arc::clone(collector), Arc::clone(resource));
    let feed = move |meta: &Meta, gone: bool| {
        let due = {
            let mut graph = collector.graph.lock();
            if gone { graph.remove(&meta.uid) } else { graph.upsert(&kind, meta) }
        };
        due.into_iter().for_each(|uid| collector.queue.add(uid));
        if definitions {
            collector.monitors.look.notify_one();
        }
    };
    let feed = context.caches.follow_meta(resource, Box::new(feed))?;
    let informer = Informer::<MetaOnly>::new(InformerConfig::all((**resource).clone()).metadata_only());
    informer.on_change(move |_, delta| {
        feed(&delta.object().metadata, matches!(delta, copepod_client::Delta::Deleted(_)));
    });
    informer.start(&context.client, stop);
    Some(informer)
}
