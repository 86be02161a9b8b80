//! What every controller is given: a client with its own identity, the shared caches, and a way to run workers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use copepod_client::{Client, ClientError, Informer, ObjectKey, Outcome, Recorder, ResourceRef, WorkQueue};
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::caches::Caches;
use crate::config::Config;

/// A controller's surroundings; clones are cheap.
#[derive(Debug, Clone)]
pub struct Context {
    /// The client in the controller's own name.
    pub client: Client,
    /// The client in the controller-manager's name, which may list and watch everything.
    pub reader: Client,
    /// Events in the controller's name.
    pub recorder: Recorder,
    /// Shared caches, followed in the controller-manager's name.
    pub caches: Arc<Caches>,
    /// Configuration.
    pub config: Arc<Config>,
    /// Ends everything.
    pub shutdown: CancellationToken,
    /// Upstream's name of the controller.
    pub name: &'static str,
}

/// What a sync returns.
pub type SyncResult = Result<Outcome, ClientError>;

/// A cache, as far as waiting for one's own writes goes.
pub trait Follower: Send + Sync {
    /// See [`Informer::wait_revision`].
    fn wait_revision<'a>(&'a self, revision: &'a str, limit: Duration) -> BoxFuture<'a, bool>;
    /// See [`Informer::wait_gone`].
    fn wait_gone<'a>(&'a self, key: &'a ObjectKey, uid: &'a str, limit: Duration) -> BoxFuture<'a, bool>;
}

impl<T: DeserializeOwned + Send + Sync + 'static> Follower for Informer<T> {
    fn wait_revision<'a>(&'a self, revision: &'a str, limit: Duration) -> BoxFuture<'a, bool> {
        Box::pin(Self::wait_revision(self, revision, limit))
    }

    fn wait_gone<'a>(&'a self, key: &'a ObjectKey, uid: &'a str, limit: Duration) -> BoxFuture<'a, bool> {
        Box::pin(Self::wait_gone(self, key, uid, limit))
    }
}

impl Context {
    /// The cache of a resource, if it is one of the shared ones.
    #[must_use]
    pub fn follower(&self, resource: &ResourceRef) -> Option<&dyn Follower> {
        self.caches.follower(resource)
    }

    /// Runs `workers` workers on `queue`, once all caches are filled, until shutdown.
    pub fn work<F, R>(&self, queue: &WorkQueue<ObjectKey>, workers: usize, sync: F)
    where
        F: Fn(Self, ObjectKey) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = SyncResult> + Send + 'static,
    {
        for _ in 0..workers {
            let (context, queue, sync) = (self.clone(), queue.clone(), sync.clone());
            copepod_supervisor::spawn(self.name, async move {
                context.caches.synced().await;
                let work = queue.work(context.name, |key| sync(context.clone(), key));
                tokio::select! {
                    () = work => {}
                    () = context.shutdown.cancelled() => {}
                }
            });
        }
    }

    /// Runs something again and again, with a pause in between, until shutdown.
    pub fn every<F, R>(&self, pause: Duration, run: F)
    where
        F: Fn(Self) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), ClientError>> + Send + 'static,
    {
        let context = self.clone();
        copepod_supervisor::spawn(self.name, async move {
            context.caches.synced().await;
            loop {
                if let Err(error) = run(context.clone()).await {
                    tracing::debug!(
                        controller = context.name,
                        error = copepod_client::chain(&error),
                        "will try again"
                    );
                }
                tokio::select! {
                    () = context.shutdown.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
            }
        });
    }
}

/// Puts the keys of changed objects in a queue, in order to look at them.
pub fn enqueue<T: DeserializeOwned + Send + Sync + 'static>(
    informer: &Informer<T>,
    queue: &WorkQueue<ObjectKey>,
) {
    let queue = queue.clone();
    informer.on_change(move |key, _| queue.add(key.clone()));
}

/// Puts the keys of managing owners of kind `owner` in a queue, before and after a change.
pub fn enqueue_owner<T>(informer: &Informer<T>, queue: &WorkQueue<ObjectKey>, owner: &ResourceRef)
where
    T: crate::views::HasMeta + DeserializeOwned + Send + Sync + 'static,
{
    let (queue, kind, api_version) = (queue.clone(), owner.kind.clone(), owner.api_version());
    informer.on_change(move |key, delta| {
        let objects = [delta.old(), Some(delta.object())];
        for reference in objects.into_iter().flatten().filter_map(|o| o.meta().controller()) {
            if reference.kind == kind && reference.api_version == api_version {
                queue.add(ObjectKey::new(&key.namespace, &reference.name));
            }
        }
    });
}
