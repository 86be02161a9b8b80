//! Custom resources: every CustomResourceDefinition becomes rows of the registry, and its status is kept.
//!
//! One task looks at all definitions whenever one changes. For each it decides names and conditions (pure, in
//! [`names`]), makes a row of every served version ([`rows`]), and when a definition is being deleted, removes its
//! objects and then the finalizer ([`cleanup`]).

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use copepod_api::{ApiResult, GroupVersionResource, Reason, ResourceDef, meta};
use jiff::Timestamp;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    registry::Registry,
    request::{RequestContext, Target},
    store::{Change, Part, Store},
};

mod cleanup;
pub(crate) mod embedded;
mod hooks;
mod names;
mod rows;

/// The finalizer that keeps a definition until its objects are gone.
pub(crate) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
/// Before another attempt at definitions that failed.
const PAUSE: Duration = Duration::from_secs(2);

/// Marks a definition that is deleted for the first time, so that its objects go before it; whether `object` is a
/// definition that is kept for that.
pub(crate) fn keeps(def: &ResourceDef, object: &mut Value, now: Timestamp) -> bool {
    if def.group != "apiextensions.k8s.io" || def.plural != "customresourcedefinitions" {
        return false;
    }
    if meta::deletion_timestamp(object).is_none() {
        cleanup::mark(object, now);
    }
    !meta::finalizers(object).is_empty()
}

/// Starts the task, which runs until `shutdown`.
pub(crate) fn start(registry: &Arc<Registry>, shutdown: &CancellationToken) {
    let task = run(Arc::downgrade(registry), shutdown.clone());
    copepod_supervisor::spawn("custom-resources", task);
}

async fn run(registry: Weak<Registry>, shutdown: CancellationToken) {
    let follow = async {
        let Some(first) = registry.upgrade() else { return };
        first.cache().ready().await;
        let gvr = GroupVersionResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        let Some(store) = first.store(&gvr) else { return };
        let prefix = store.row.def.key_prefix(None);
        let bucket = first.cache().bucket(&prefix);
        drop(first);
        let mut seen: HashMap<String, Seen> = HashMap::new();
        loop {
            let changed = bucket.changed();
            tokio::pin!(changed);
            let Some(registry) = registry.upgrade() else { return };
            let failed = Box::pin(pass(&registry, &store, &mut seen)).await;
            registry.custom_done();
            drop(registry);
            tokio::select! {
                () = &mut changed => {}
                () = tokio::time::sleep(PAUSE), if failed => {}
            }
        }
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = follow => {}
    }
}

/// What is known of a definition whose rows are there.
struct Seen {
    revision: i64,
    group: String,
    plural: String,
}

/// Looks at every definition; whether one must be tried again without a change.
async fn pass(registry: &Registry, store: &Store, seen: &mut HashMap<String, Seen>) -> bool {
    let prefix = store.row.def.key_prefix(None);
    let entries = registry.cache().bucket(&prefix).entries(&prefix);
    let gone: Vec<String> =
        seen.keys().filter(|name| !entries.iter().any(|e| e.name() == name.as_str())).cloned().collect();
    for name in gone {
        if let Some(old) = seen.remove(&name) {
            registry.set_custom(&old.group, &old.plural, Vec::new());
        }
    }
    let mut failed = false;
    for entry in &entries {
        if seen.get(entry.name()).is_some_and(|seen| seen.revision == entry.revision()) {
            continue;
        }
        let definition = match store.row.load(entry) {
            Ok(definition) => definition,
            Err(error) => {
                tracing::warn!(name = entry.name(), %error, "definition cannot be read");
                continue;
            }
        };
        match one(registry, store, &definition, &entries_of(store, &entries)).await {
            Ok(()) => {
                let (group, plural) = names::resource(&definition);
                let known = Seen { revision: entry.revision(), group, plural };
                seen.insert(entry.name().to_owned(), known);
            }
            Err(error) => {
                failed = true;
                tracing::warn!(name = entry.name(), %error, "custom resource is not served as defined");
            }
        }
    }
    failed
}

fn entries_of(store: &Store, entries: &[Arc<copepod_store::Entry>]) -> Vec<Value> {
    entries.iter().filter_map(|entry| store.row.load(entry).ok()).collect()
}

/// Brings rows and status of one definition up to date.
async fn one(registry: &Registry, store: &Store, definition: &Value, all: &[Value]) -> ApiResult<()> {
    let (group, plural) = names::resource(definition);
    let conversions = store.core.conversions.as_ref();
    if names::established(definition) {
        registry.set_custom(&group, &plural, rows::of(definition, conversions));
    }
    if meta::deletion_timestamp(definition).is_some() {
        if meta::finalizers(definition).contains(&FINALIZER) {
            cleanup::run(registry, store, definition).await?;
        }
        return Ok(());
    }
    let Some(status) = names::plan(definition, all, copepod_sys::clock::now()) else { return Ok(()) };
    // Rows first: whoever sees Established can use the resource at once.
    registry.set_custom(&group, &plural, rows::of(&status, conversions));
    write_status(store, &status).await
}

/// Writes the status that was decided on the definition as it was then; a change meanwhile is looked at anew.
async fn write_status(store: &Store, decided: &Value) -> ApiResult<()> {
    let cx = RequestContext::internal();
    let target = Target::new(None, meta::name(decided));
    let make = |_: Option<&Value>| Ok(decided.clone());
    let change = Change { target: &target, part: Part::Status, make: &make, create: false, owned: false };
    match Box::pin(store.change(&cx, &change)).await {
        Ok(_) => Ok(()),
        Err(error) if error.is(Reason::Conflict) || error.is(Reason::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
