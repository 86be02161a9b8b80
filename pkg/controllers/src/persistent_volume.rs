//! The volume binder: brings claims and volumes together, asks provisioners for volumes, and reclaims what is left.
//!
//! One worker looks at claims and volumes alike, so that no two claims ever get the same volume. What is decided
//! (`claim`, `volume`, pure) is written in upstream's order: the volume first, then the claim. Each write of a `spec`
//! insists on the version that was seen; a conflict means another look.

mod claim;
mod volume;

use std::sync::Arc;

use copepod_client::resources::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use copepod_client::{EventKind, ObjectKey, ObjectRef, OptionalExt, Outcome, WorkQueue};
use copepod_storage::BIND_COMPLETED;

use crate::context::{Context, SyncResult, enqueue};
use crate::step::{Step, execute};
use crate::views::{Claim, PersistentVolume, StorageClass};

const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// What is to be written, in this order, and what is to be told.
#[derive(Debug, Default)]
struct Plan {
    steps: Vec<Step>,
    events: Vec<(ObjectRef, EventKind, &'static str, String)>,
    /// Directories of deleted volumes.
    remove: Option<std::path::PathBuf>,
    /// A claim that has to be looked at next.
    next: Option<ObjectKey>,
}

impl Plan {
    fn tell_claim(
        &mut self,
        claim: &Claim,
        kind: EventKind,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let about = ObjectRef::of(&PERSISTENT_VOLUME_CLAIMS, &claim.metadata);
        self.events.push((about, kind, reason, message.into()));
    }

    fn tell_volume(
        &mut self,
        volume: &PersistentVolume,
        kind: EventKind,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let about = ObjectRef::of(&PERSISTENT_VOLUMES, &volume.metadata);
        self.events.push((about, kind, reason, message.into()));
    }
}

/// What decisions about a claim rest on.
#[derive(Debug, Default)]
struct World {
    volumes: Vec<Arc<PersistentVolume>>,
    classes: Vec<Arc<StorageClass>>,
    /// Pods that use the claim and are not placed yet.
    waiting: Vec<String>,
}

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let caches = &context.caches;
    let queue = WorkQueue::new();
    enqueue(&caches.claims, &queue);
    enqueue(&caches.volumes, &queue);
    let volumes = queue.clone();
    caches.claims.on_change(move |_, delta| {
        // What a claim leaves behind is reclaimed.
        let bound = &delta.object().spec.volume_name;
        if matches!(delta, copepod_client::Delta::Deleted(_)) && !bound.is_empty() {
            volumes.add(ObjectKey::new("", bound));
        }
    });
    let (all, claims) = (context.clone(), queue.clone());
    caches.volumes.on_change(move |_, delta| {
        if let Some(owner) = &delta.object().spec.claim_ref {
            claims.add(ObjectKey::new(&owner.namespace, &owner.name));
        }
        add_pending(&all, &claims);
    });
    let (all, claims) = (context.clone(), queue.clone());
    caches.classes.on_change(move |_, _| add_pending(&all, &claims));
    context.work(&queue, 1, {
        let queue = queue.clone();
        move |context, key| {
            let queue = queue.clone();
            async move { sync(&context, &key, &queue).await }
        }
    });
}

/// A new volume or class may be what a claim has waited for.
fn add_pending(context: &Context, queue: &WorkQueue<ObjectKey>) {
    let claims = context.caches.claims.list();
    let pending = claims.iter().filter(|c| c.metadata.annotation(BIND_COMPLETED).is_none());
    pending.for_each(|claim| queue.add(claim.metadata.key()));
}

async fn sync(context: &Context, key: &ObjectKey, queue: &WorkQueue<ObjectKey>) -> SyncResult {
    let plan = if key.namespace.is_empty() {
        let Some(volume) = context.caches.volumes.get_key(key) else { return Ok(Outcome::Done) };
        let claim = claim_of(context, &volume).await?;
        volume::plan(&volume, claim.as_deref())
    } else {
        let Some(claim) = context.caches.claims.get_key(key) else { return Ok(Outcome::Done) };
        claim::plan(&claim, &world(context, &claim))
    };
    carry_out(context, plan, queue).await
}

fn world(context: &Context, claim: &Claim) -> World {
    let pods = context.caches.pods.list_namespace(&claim.metadata.namespace);
    let waiting = pods.iter().filter(|pod| {
        pod.active()
            && pod.spec.node_name.is_empty()
            && pod.claim_names().any(|(name, _)| *name == *claim.metadata.name)
    });
    World {
        volumes: context.caches.volumes.list(),
        classes: context.caches.classes.list(),
        waiting: waiting.map(|pod| pod.metadata.name.clone()).collect(),
    }
}

/// The claim a volume is bound to, asked of the server where the cache may be behind: a volume is not to be reclaimed
/// because of that.
async fn claim_of(
    context: &Context,
    volume: &PersistentVolume,
) -> Result<Option<Arc<Claim>>, copepod_client::ClientError> {
    let Some(owner) = volume.spec.claim_ref.as_ref().filter(|owner| !owner.uid.is_empty()) else {
        return Ok(None);
    };
    let key = ObjectKey::new(&owner.namespace, &owner.name);
    let cached = context.caches.claims.get_key(&key);
    let settled = matches!(&*volume.status.phase, "Released" | "Failed");
    if cached.as_ref().is_some_and(|claim| claim.metadata.uid == owner.uid) || (cached.is_none() && settled) {
        return Ok(cached);
    }
    let target = PERSISTENT_VOLUME_CLAIMS.object(&owner.namespace, &owner.name);
    let live: Option<Claim> = context.client.get(&target).await.optional()?;
    Ok(live.filter(|claim| claim.metadata.uid == owner.uid).map(Arc::new))
}

async fn carry_out(context: &Context, plan: Plan, queue: &WorkQueue<ObjectKey>) -> SyncResult {
    if let Some(path) = plan.remove {
        let removed = tokio::fs::remove_dir_all(&path).await;
        if let Err(source) = removed
            && source.kind() != std::io::ErrorKind::NotFound
        {
            return Err(copepod_client::ClientError::File { path, source });
        }
    }
    for step in plan.steps {
        match execute(context, vec![step]).await.pop() {
            Some(Err(error)) if error.conflict() => return Ok(Outcome::Retry),
            Some(Err(error)) if error.not_found() => return Ok(Outcome::Done),
            Some(Err(error)) => return Err(error),
            _ => {}
        }
    }
    for (about, kind, reason, message) in plan.events {
        context.recorder.event(about, kind, reason, message);
    }
    if let Some(key) = plan.next {
        queue.add(key);
    }
    Ok(Outcome::Done)
}
