//! What becomes of one object.

use std::collections::HashSet;
use std::sync::Arc;

use copepod_api::{ApiError, Reason};
use copepod_client::{
    ClientError, DeleteOptions, Meta, ObjectKey, OptionalExt, OwnerReference, Patch, Propagation, ResourceRef,
};
use serde_json::{Value, json};

use super::graph::Node;
use super::{Collector, FOREGROUND, ORPHAN};
use crate::context::Context;
use crate::views::MetaOnly;

/// How an object's owners stand.
#[derive(Debug, Default)]
struct Owners {
    /// There, and staying.
    solid: bool,
    /// Gone, by UID.
    dangling: HashSet<String>,
    /// Waiting for this object to go, by UID.
    waiting: HashSet<String>,
}

/// Looks at one object.
pub(super) async fn process(
    context: &Context,
    collector: &Arc<Collector>,
    uid: &str,
) -> Result<(), ClientError> {
    let Some(node) = collector.graph.lock().get(uid).cloned() else { return Ok(()) };
    if node.orphan {
        return orphan_dependents(context, collector, uid, &node).await;
    }
    if node.foreground {
        return finish_foreground(context, collector, uid, &node).await;
    }
    if node.deleting || node.owners.is_empty() {
        return Ok(());
    }
    attempt(context, collector, uid, &node).await
}

async fn latest(context: &Context, node: &Node, uid: &str) -> Result<Option<Meta>, ClientError> {
    let target = node.resource.object(&node.key.namespace, &node.key.name);
    let found = context.client.get::<MetaOnly>(&target).await.optional()?;
    Ok(found.map(|object| object.metadata).filter(|meta| meta.uid == uid))
}

async fn attempt(
    context: &Context,
    collector: &Collector,
    uid: &str,
    node: &Node,
) -> Result<(), ClientError> {
    let Some(meta) = latest(context, node, uid).await? else {
        let due = collector.graph.lock().remove(uid);
        due.into_iter().for_each(|uid| collector.queue.add(uid));
        return Ok(());
    };
    if meta.deleting() || meta.owner_references.is_empty() {
        return Ok(());
    }
    let owners = classify(context, collector, &meta).await?;
    if owners.solid {
        let drop: HashSet<_> = owners.dangling.union(&owners.waiting).cloned().collect();
        return if drop.is_empty() { Ok(()) } else { disown(context, node, &meta, &drop).await };
    }
    if owners.dangling.is_empty() && owners.waiting.is_empty() {
        return Ok(());
    }
    let has = |name: &str| meta.finalizers.iter().any(|f| f == name);
    let dependents = collector.graph.lock().dependents(uid);
    let policy = if !owners.waiting.is_empty() && !dependents.is_empty() {
        break_circle(context, collector, node, &meta, &dependents).await?;
        Propagation::Foreground
    } else if has(ORPHAN) {
        Propagation::Orphan
    } else if has(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    tracing::debug!(resource = %node.resource, key = %node.key, ?policy, "collecting");
    let target = node.resource.object(&node.key.namespace, &node.key.name);
    let mut options = DeleteOptions::uid(uid).propagation(policy);
    if let Some(conditions) = &mut options.preconditions {
        // Somebody may give it another owner this very moment.
        conditions.resource_version = Some(meta.resource_version.clone());
    }
    context.client.delete(&target, &options).await.optional().map(|_| ())
}

/// Two objects that own each other and are both to go in the foreground would wait for ever: this one stops blocking.
async fn break_circle(
    context: &Context,
    collector: &Collector,
    node: &Node,
    meta: &Meta,
    dependents: &[String],
) -> Result<(), ClientError> {
    let circle = dependents.iter().any(|d| collector.graph.lock().get(d).is_some_and(|n| n.foreground));
    if !circle {
        return Ok(());
    }
    let mut references = meta.owner_references.clone();
    references.iter_mut().for_each(|r| r.block_owner_deletion = Some(false));
    let body = json!({"metadata": {"uid": meta.uid, "ownerReferences": references}});
    patch(context, &node.resource, &node.key, body).await
}

async fn classify(context: &Context, collector: &Collector, meta: &Meta) -> Result<Owners, ClientError> {
    let mut owners = Owners::default();
    for owner in &meta.owner_references {
        let known = collector.graph.lock().get(&owner.uid).map(|n| (n.foreground, n.key.namespace.clone()));
        match known {
            // A namespaced owner must live beside its dependents.
            Some((_, namespace)) if !namespace.is_empty() && namespace != meta.namespace => {
                owners.dangling.insert(owner.uid.clone());
            }
            Some((true, _)) => drop(owners.waiting.insert(owner.uid.clone())),
            Some((false, _)) => owners.solid = true,
            None if exists(context, collector, owner, &meta.namespace).await? => owners.solid = true,
            None => drop(owners.dangling.insert(owner.uid.clone())),
        }
    }
    Ok(owners)
}

/// Asks the server for an owner that the graph does not know.
async fn exists(
    context: &Context,
    collector: &Collector,
    owner: &OwnerReference,
    namespace: &str,
) -> Result<bool, ClientError> {
    let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
    let Some(known) = collector.monitors.resource(group, &owner.kind) else {
        // Its kind may only not be served yet; deleting on that ground would be fatal.
        let text = format!("no matches for kind {:?} in version {:?}", owner.kind, owner.api_version);
        return Err(ApiError::new(Reason::NotAcceptable, text).into());
    };
    if known.namespaced && namespace.is_empty() {
        return Ok(false);
    }
    let resource = ResourceRef { version: version.to_owned().into(), ..(*known).clone() };
    let found = context.client.get::<MetaOnly>(&resource.object(namespace, &owner.name)).await.optional()?;
    Ok(found.is_some_and(|object| object.metadata.uid == owner.uid))
}

/// Takes the finalizer away once nothing blocks any more; wakes what still does.
async fn finish_foreground(
    context: &Context,
    collector: &Collector,
    uid: &str,
    node: &Node,
) -> Result<(), ClientError> {
    let blocking = collector.graph.lock().blocking(uid);
    if blocking.is_empty() {
        return drop_finalizer(context, node, uid, FOREGROUND).await;
    }
    for dependent in blocking {
        let going = collector.graph.lock().get(&dependent).is_none_or(|n| n.deleting);
        if !going {
            collector.queue.add(dependent);
        }
    }
    Ok(())
}

async fn orphan_dependents(
    context: &Context,
    collector: &Collector,
    uid: &str,
    node: &Node,
) -> Result<(), ClientError> {
    let dependents = collector.graph.lock().dependents(uid);
    let gone = HashSet::from([uid.to_owned()]);
    for dependent in dependents {
        let Some(other) = collector.graph.lock().get(&dependent).cloned() else { continue };
        if let Some(meta) = latest(context, &other, &dependent).await? {
            disown(context, &other, &meta, &gone).await?;
        }
    }
    drop_finalizer(context, node, uid, ORPHAN).await
}

async fn disown(
    context: &Context,
    node: &Node,
    meta: &Meta,
    gone: &HashSet<String>,
) -> Result<(), ClientError> {
    let left: Vec<_> = meta.owner_references.iter().filter(|o| !gone.contains(&o.uid)).collect();
    if left.len() == meta.owner_references.len() {
        return Ok(());
    }
    let references = if left.is_empty() { Value::Null } else { json!(left) };
    let body = json!({"metadata": {
        "uid": meta.uid, "resourceVersion": meta.resource_version, "ownerReferences": references,
    }});
    patch(context, &node.resource, &node.key, body).await
}

async fn drop_finalizer(context: &Context, node: &Node, uid: &str, name: &str) -> Result<(), ClientError> {
    let Some(meta) = latest(context, node, uid).await? else { return Ok(()) };
    let left: Vec<_> = meta.finalizers.iter().filter(|f| *f != name).collect();
    if left.len() == meta.finalizers.len() {
        return Ok(());
    }
    let finalizers = if left.is_empty() { Value::Null } else { json!(left) };
    let body = json!({"metadata": {
        "uid": uid, "resourceVersion": meta.resource_version, "finalizers": finalizers,
    }});
    patch(context, &node.resource, &node.key, body).await
}

/// Merge patches: the strategic kind does not exist for custom resources.
async fn patch(
    context: &Context,
    resource: &ResourceRef,
    key: &ObjectKey,
    body: Value,
) -> Result<(), ClientError> {
    let target = resource.object(&key.namespace, &key.name);
    context.client.patch::<Value>(&target, &Patch::Merge(body)).await.optional().map(|_| ())
}
