//! A cache of one resource that follows the server, and tells what changed.

mod reflector;
mod store;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{Client, ObjectKey, ResourceRef};
use store::{Change, Store};

/// What an informer follows.
#[derive(Debug, Clone)]
pub struct InformerConfig {
    /// The resource.
    pub resource: ResourceRef,
    /// One namespace, or empty for all.
    pub namespace: String,
    /// Label selector, or empty.
    pub label_selector: String,
    /// Field selector, or empty.
    pub field_selector: String,
    /// Ask the server for metadata only (`PartialObjectMetadata`).
    pub metadata_only: bool,
}

impl InformerConfig {
    /// All objects of a resource.
    #[must_use]
    pub fn all(resource: ResourceRef) -> Self {
        Self {
            resource,
            namespace: String::new(),
            label_selector: String::new(),
            field_selector: String::new(),
            metadata_only: false,
        }
    }

    /// The same in one namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// The same with a label selector.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.label_selector = selector.into();
        self
    }

    /// The same with a field selector.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.field_selector = selector.into();
        self
    }

    /// The same with metadata only.
    #[must_use]
    pub fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }
}

/// One change of the cache.
#[derive(Debug)]
pub enum Delta<T> {
    /// New in the cache.
    Added(Arc<T>),
    /// Changed.
    Updated {
        /// Before.
        old: Arc<T>,
        /// After.
        new: Arc<T>,
    },
    /// Gone, in its last known state.
    Deleted(Arc<T>),
}

impl<T> Clone for Delta<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(new) => Self::Added(Arc::clone(new)),
            Self::Updated { old, new } => Self::Updated { old: Arc::clone(old), new: Arc::clone(new) },
            Self::Deleted(old) => Self::Deleted(Arc::clone(old)),
        }
    }
}

impl<T> Delta<T> {
    /// The object as it is now, or was last.
    #[must_use]
    pub fn object(&self) -> &Arc<T> {
        match self {
            Self::Added(object) | Self::Updated { new: object, .. } | Self::Deleted(object) => object,
        }
    }

    /// The object as it was before, when there was one.
    #[must_use]
    pub fn old(&self) -> Option<&Arc<T>> {
        if let Self::Updated { old, .. } = self { Some(old) } else { None }
    }
}

type Handler<T> = Box<dyn Fn(&ObjectKey, &Delta<T>) + Send + Sync>;

/// A cache of one resource; clones share it. `T` holds what the consumers read of an object and nothing else.
pub struct Informer<T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    config: InformerConfig,
    store: RwLock<Store<T>>,
    /// Held while a change is applied and told, so that a handler that joins sees each object exactly once.
    handlers: Mutex<Vec<Handler<T>>>,
    synced: watch::Sender<bool>,
    changed: watch::Sender<()>,
}

impl<T> Clone for Informer<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<T> fmt::Debug for Informer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer").field("resource", &self.inner.config.resource).finish_non_exhaustive()
    }
}

/// A way to find objects by a value computed from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Index(usize);

impl<T: DeserializeOwned + Send + Sync + 'static> Informer<T> {
    /// An empty cache; nothing happens until [`Informer::run`] or [`Informer::start`].
    #[must_use]
    pub fn new(config: InformerConfig) -> Self {
        let inner = Inner {
            config,
            store: RwLock::new(Store::default()),
            handlers: Mutex::new(Vec::new()),
            synced: watch::Sender::new(false),
            changed: watch::Sender::new(()),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Follows the server in a task of its own until `shutdown`.
    pub fn start(&self, client: &Client, shutdown: &CancellationToken) {
        let (informer, client, shutdown) = (self.clone(), client.clone(), shutdown.clone());
        copepod_supervisor::spawn("informer", async move { informer.run(&client, &shutdown).await });
    }

    /// Follows the server until `shutdown`.
    pub async fn run(&self, client: &Client, shutdown: &CancellationToken) {
        reflector::run(self, client, shutdown).await;
    }
}

impl<T> Informer<T> {
    /// What is followed.
    #[must_use]
    pub fn config(&self) -> &InformerConfig {
        &self.inner.config
    }

    /// Returns once the cache holds a full set of objects.
    pub async fn synced(&self) {
        // The sender lives as long as `self`, so waiting can only end by the value.
        drop(self.inner.synced.subscribe().wait_for(|done| *done).await);
    }

    /// Whether the cache has ever held a full set of objects.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        *self.inner.synced.borrow()
    }

    /// Calls `handler` for every object there is and every change from now on, in order, in the informer's task:
    /// it must be quick (put a key in a queue) and must not add handlers itself.
    pub fn on_change(&self, handler: impl Fn(&ObjectKey, &Delta<T>) + Send + Sync + 'static) {
        let mut handlers = self.inner.handlers.lock();
        let now: Vec<_> = {
            let store = self.inner.store.read();
            store.iter().map(|(key, object)| (key.clone(), Arc::clone(object))).collect()
        };
        for (key, object) in now {
            handler(&key, &Delta::Added(object));
        }
        handlers.push(Box::new(handler));
    }

    /// The same as a stream. The channel is not bounded: a consumer that stops reading must drop it.
    #[must_use]
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<(ObjectKey, Delta<T>)>
    where
        T: Send + Sync + 'static,
    {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.on_change(move |key, delta| {
            if sender.send((key.clone(), delta.clone())).is_err() {
                tracing::trace!("the consumer of a subscription is gone");
            }
        });
        receiver
    }

    /// A signal for every change; it tells that something changed, not what.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.inner.changed.subscribe()
    }

    /// One object.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.get_key(&ObjectKey::new(namespace, name))
    }

    /// One object.
    #[must_use]
    pub fn get_key(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.inner.store.read().get(key).cloned()
    }

    /// All objects, ordered by namespace and name.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<T>> {
        self.inner.store.read().iter().map(|(_, object)| Arc::clone(object)).collect()
    }

    /// The objects of a namespace, ordered by name.
    #[must_use]
    pub fn list_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        self.inner.store.read().namespace(namespace).cloned().collect()
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.store.read().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an index; `values` gives the values under which an object is found.
    pub fn add_index(&self, values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static) -> Index {
        Index(self.inner.store.write().add_index(Box::new(values)))
    }

    /// The objects that an index has under `value`.
    #[must_use]
    pub fn by_index(&self, index: Index, value: &str) -> Vec<Arc<T>> {
        self.inner.store.read().by_index(index.0, value)
    }

    /// Waits, at most `limit`, until the cache has seen everything up to `revision`: the way to read one's own
    /// writes. Returns whether it has.
    pub async fn wait_revision(&self, revision: &str, limit: Duration) -> bool {
        self.wait(limit, |store| !store::older(store.revision(), revision)).await
    }

    /// Waits, at most `limit`, until the object with this UID is gone or being deleted according to the cache.
    pub async fn wait_gone(&self, key: &ObjectKey, uid: &str, limit: Duration) -> bool {
        self.wait(limit, |store| store.gone(key, uid)).await
    }

    async fn wait(&self, limit: Duration, done: impl Fn(&Store<T>) -> bool) -> bool {
        let mut changed = self.inner.changed.subscribe();
        let until = tokio::time::sleep(limit);
        tokio::pin!(until);
        while !done(&self.inner.store.read()) {
            tokio::select! {
                () = &mut until => return false,
                seen = changed.changed() => if seen.is_err() { return false },
            }
        }
        true
    }

    /// Carries out `mutate` on the cache and tells the handlers what came of it.
    fn apply(&self, mutate: impl FnOnce(&mut Store<T>) -> Vec<Change<T>>) {
        let handlers = self.inner.handlers.lock();
        let changes = mutate(&mut self.inner.store.write());
        for (key, delta) in &changes {
            for handler in handlers.iter() {
                handler(key, delta);
            }
        }
        drop(handlers);
        self.inner.changed.send_replace(());
    }
}

#[cfg(test)]
mod tests;
