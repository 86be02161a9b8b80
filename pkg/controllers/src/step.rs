//! What a plan consists of, and the one place that carries it out.

use std::time::Duration;

use copepod_client::{
    ClientError, DeleteOptions, EventKind, Meta, ObjectKey, ObjectRef, OptionalExt, Patch, ResourceRef,
    Target,
};
use futures::StreamExt;
use serde_json::Value;

use crate::context::Context;

/// How long a worker waits to see its own writes in the cache before it goes on regardless.
const SEE_OWN_WRITE: Duration = Duration::from_secs(5);
/// Writes of one batch that are under way at a time.
const AT_ONCE: usize = 8;

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Create an object.
    Create {
        /// Its resource.
        resource: ResourceRef,
        /// Its namespace.
        namespace: String,
        /// The object.
        body: Value,
    },
    /// Patch an object or a subresource.
    Patch {
        /// Its resource.
        resource: ResourceRef,
        /// The object.
        key: ObjectKey,
        /// Subresource, or empty.
        subresource: &'static str,
        /// The patch.
        patch: Patch,
    },
    /// Delete an object; that it is gone already is fine.
    Delete {
        /// Its resource.
        resource: ResourceRef,
        /// The object.
        key: ObjectKey,
        /// Its UID, so that a successor of the same name is safe.
        uid: String,
        /// How.
        options: DeleteOptions,
    },
}

impl Step {
    /// A deletion of exactly this object.
    #[must_use]
    pub fn delete(resource: &ResourceRef, meta: &Meta) -> Self {
        Self::Delete {
            resource: resource.clone(),
            key: meta.key(),
            uid: meta.uid.clone(),
            options: DeleteOptions::uid(&meta.uid),
        }
    }

    /// A merge patch of an object.
    #[must_use]
    pub fn merge(resource: &ResourceRef, meta: &Meta, body: Value) -> Self {
        Self::Patch {
            resource: resource.clone(),
            key: meta.key(),
            subresource: "",
            patch: Patch::Merge(body),
        }
    }

    /// The same patch of a subresource.
    #[must_use]
    pub fn of(mut self, part: &'static str) -> Self {
        if let Self::Patch { subresource, .. } = &mut self {
            *subresource = part;
        }
        self
    }

    /// A merge patch of an object's status.
    #[must_use]
    pub fn status(resource: &ResourceRef, meta: &Meta, status: Value) -> Self {
        Self::Patch {
            resource: resource.clone(),
            key: meta.key(),
            subresource: "status",
            patch: Patch::Merge(serde_json::json!({"status": status})),
        }
    }

    fn resource(&self) -> &ResourceRef {
        match self {
            Self::Create { resource, .. } | Self::Patch { resource, .. } | Self::Delete { resource, .. } => {
                resource
            }
        }
    }
}

/// What came of a step: what the server answered.
pub type StepResult = Result<Value, ClientError>;

/// Carries out steps at the same time, each on its own, and waits until the caches show what was written: the next
/// plan then sees it, which is why no controller has to remember what it did.
pub async fn execute(context: &Context, steps: Vec<Step>) -> Vec<StepResult> {
    let work = steps.into_iter().map(|step| execute_one(context, step));
    futures::stream::iter(work).buffered(AT_ONCE).collect().await
}

/// The same, stopping at the first error.
///
/// # Errors
/// The first error.
pub async fn execute_all(context: &Context, steps: Vec<Step>) -> Result<(), ClientError> {
    execute(context, steps).await.into_iter().collect::<Result<Vec<_>, _>>().map(drop)
}

/// Creates in growing batches (1, 2, 4, …), so that a cause that refuses all of them costs few requests. Steps after a
/// batch with a failure are not tried. Returns the results of those that were.
pub async fn execute_slow_start(context: &Context, mut steps: Vec<Step>) -> Vec<StepResult> {
    let mut results = Vec::new();
    let mut size = 1;
    while !steps.is_empty() {
        let rest = steps.split_off(size.min(steps.len()));
        let batch = execute(context, std::mem::replace(&mut steps, rest)).await;
        let failed = batch.iter().any(Result::is_err);
        results.extend(batch);
        if failed {
            break;
        }
        size *= 2;
    }
    results
}

async fn execute_one(context: &Context, step: Step) -> StepResult {
    let resource = step.resource().clone();
    let gone = match &step {
        Step::Delete { key, uid, .. } => Some((key.clone(), uid.clone())),
        _ => None,
    };
    let answer = send(context, step).await?;
    if let Some(follower) = context.follower(&resource) {
        let seen = match &gone {
            Some((key, uid)) => follower.wait_gone(key, uid, SEE_OWN_WRITE).await,
            None => {
                let revision = copepod_api::meta::resource_version(&answer);
                revision.is_empty() || follower.wait_revision(revision, SEE_OWN_WRITE).await
            }
        };
        if !seen {
            tracing::debug!(%resource, "the cache has not shown our write in time");
        }
    }
    Ok(answer)
}

async fn send(context: &Context, step: Step) -> StepResult {
    let client = &context.client;
    match step {
        Step::Create { resource, namespace, body } => {
            client.create(&resource.collection(&namespace), &body).await
        }
        // Upstream's roles let most controllers update what they keep, but not patch it.
        Step::Patch { resource, key, subresource, patch: Patch::Merge(patch) } => {
            client.merge_and_update(&context.reader, &resource, &key, subresource, &patch).await
        }
        Step::Patch { resource, key, subresource, patch } => {
            client.patch(&target(&resource, &key, subresource), &patch).await
        }
        Step::Delete { resource, key, options, .. } => {
            let gone = client.delete(&target(&resource, &key, ""), &options).await;
            // A conflict says that the name belongs to another object by now.
            match gone {
                Err(error) if error.conflict() => Ok(Value::Null),
                other => Ok(other.optional()?.unwrap_or(Value::Null)),
            }
        }
    }
}

fn target(resource: &ResourceRef, key: &ObjectKey, subresource: &str) -> Target {
    let target = resource.object(&key.namespace, &key.name);
    if subresource.is_empty() { target } else { target.subresource(subresource) }
}

/// An event about an object, in the name of the context's controller.
pub fn event(
    context: &Context,
    about: (&ResourceRef, &Meta),
    kind: EventKind,
    reason: &str,
    message: impl Into<String>,
) {
    context.recorder.event(ObjectRef::of(about.0, about.1), kind, reason, message);
}
