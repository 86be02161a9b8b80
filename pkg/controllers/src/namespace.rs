//! Namespaces on their way out: everything in them goes first.

use std::time::Duration;

use copepod_client::resources::{NAMESPACES, PODS};
use copepod_client::{
    ClientError, DeleteOptions, List, ListOptions, ObjectKey, Outcome, Propagation, WorkQueue,
};
use copepod_sys::clock;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::context::{Context, SyncResult, enqueue};
use crate::discovery::{Discovered, discover};
use crate::status::merge_difference;
use crate::step::{Step, execute_all};
use crate::views::{Condition, HasMeta, MetaOnly, Namespace, set_condition};

const FINALIZER: &str = "kubernetes";
/// Pause between looks while something is still on its way out.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    enqueue(&context.caches.namespaces, &queue);
    let pods = (context.clone(), queue.clone());
    context.caches.pods.on_change(move |key, delta| {
        // The end of the last pod is what a terminating namespace waits for most.
        if delta.object().meta().deleting() {
            let namespace = pods.0.caches.namespaces.get("", &key.namespace);
            if namespace.is_some_and(|ns| ns.metadata.deleting()) {
                pods.1.add(ObjectKey::new("", &key.namespace));
            }
        }
    });
    context.work(&queue, 4, sync);
}

/// What is left in a namespace after one round of deletions.
#[derive(Debug, Default)]
struct Remains {
    /// Kinds and numbers, `configmaps.` written as upstream does.
    resources: Vec<(String, usize)>,
    /// Finalizers and how many objects carry them.
    finalizers: std::collections::BTreeMap<String, usize>,
    errors: Vec<String>,
    discovery: Option<String>,
    /// Nothing but the pods was looked at yet.
    pods_first: bool,
}

async fn sync(context: Context, key: ObjectKey) -> SyncResult {
    let Some(namespace) = context.caches.namespaces.get_key(&key) else { return Ok(Outcome::Done) };
    if !namespace.metadata.deleting() || !namespace.spec.finalizers.iter().any(|f| f == FINALIZER) {
        return Ok(Outcome::Done);
    }
    let remains = match discover(&context.client).await {
        Ok((resources, complete)) => {
            let mut remains = empty(&context, &key.name, &resources).await;
            if !complete {
                remains.discovery = Some("unable to retrieve the complete list of server APIs".to_owned());
            }
            remains
        }
        Err(error) => Remains { discovery: Some(error.to_string()), ..Remains::default() },
    };
    if let Some(step) = plan_conditions(&namespace, &remains, clock::now()) {
        execute_all(&context, vec![step]).await?;
    }
    if remains.resources.is_empty() && remains.errors.is_empty() && remains.discovery.is_none() {
        finalize(&context, &namespace).await?;
        return Ok(Outcome::Done);
    }
    Ok(Outcome::After(PAUSE))
}

/// Deletes everything, pods first so that what they use is still there while they end, and looks what is left.
async fn empty(context: &Context, namespace: &str, resources: &[Discovered]) -> Remains {
    let mut remains = Remains::default();
    let namespaced = resources.iter().filter(|r| r.resource.namespaced && r.has(&["delete"]));
    let mut order: Vec<_> = namespaced.collect();
    order.sort_by_key(|r| r.resource != PODS);
    for found in order {
        if let Err(error) = empty_one(context, namespace, found, &mut remains).await {
            // A kind that went away, or that cannot be deleted as a whole, holds nothing back.
            let harmless = error.not_found() || error.api().is_some_and(|e| e.code() == 405);
            if !harmless {
                remains.errors.push(error.to_string());
            }
        }
        if found.resource == PODS && !remains.resources.is_empty() {
            remains.pods_first = true;
            break;
        }
    }
    remains
}

async fn empty_one(
    context: &Context,
    namespace: &str,
    found: &Discovered,
    remains: &mut Remains,
) -> Result<(), ClientError> {
    let target = found.resource.collection(namespace);
    if !found.has(&["list"]) {
        return Ok(());
    }
    let all = ListOptions::default();
    let list = || context.client.list_all::<MetaOnly>(&target, &all);
    let before: List<MetaOnly> = list().await?;
    if before.items.is_empty() {
        return Ok(());
    }
    let options = DeleteOptions::default().propagation(Propagation::Background);
    if found.has(&["deletecollection"]) {
        context.client.delete_collection(&target, &ListOptions::default(), &options).await?;
    } else {
        let steps = before.items.iter().map(|item| Step::delete(&found.resource, &item.metadata));
        execute_all(context, steps.collect()).await?;
    }
    let after = list().await?;
    if !after.items.is_empty() {
        let name = format!("{}.{}", found.resource.plural, found.resource.group);
        remains.resources.push((name, after.items.len()));
        for finalizer in after.items.iter().flat_map(|i| &i.metadata.finalizers) {
            *remains.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }
    Ok(())
}

fn listed(mut items: Vec<String>) -> String {
    items.sort();
    items.join(", ")
}

/// Upstream's five conditions of a terminating namespace.
fn plan_conditions(namespace: &Namespace, remains: &Remains, now: Timestamp) -> Option<Step> {
    // As upstream: what is left is told once everything was looked at, not while only pods were.
    let told = !remains.pods_first;
    let resources = remains.resources.iter().map(|(name, n)| format!("{name} has {n} resource instances"));
    let finalizers = remains.finalizers.iter().map(|(name, n)| format!("{name} in {n} resource instances"));
    let rows = [
        (
            "NamespaceDeletionDiscoveryFailure",
            remains.discovery.clone().map(|e| format!("Discovery failed for some groups: {e}")),
            ("DiscoveryFailed", "ResourcesDiscovered", "All resources successfully discovered"),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            None,
            ("GroupVersionParsingFailed", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            "NamespaceDeletionContentFailure",
            (!remains.errors.is_empty()).then(|| {
                format!(
                    "Failed to delete all resource types, {} remaining: {}",
                    remains.errors.len(),
                    listed(remains.errors.clone())
                )
            }),
            (
                "ContentDeletionFailed",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
        ),
        (
            "NamespaceContentRemaining",
            (told && !remains.resources.is_empty())
                .then(|| format!("Some resources are remaining: {}", listed(resources.collect()))),
            ("SomeResourcesRemain", "ContentRemoved", "All content successfully removed"),
        ),
        (
            "NamespaceFinalizersRemaining",
            (told && !remains.finalizers.is_empty()).then(|| {
                format!(
                    "Some content in the namespace has finalizers remaining: {}",
                    listed(finalizers.collect())
                )
            }),
            ("SomeFinalizersRemain", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        ),
    ];
    let mut conditions = namespace.status.conditions.clone();
    for (kind, problem, (bad, good, fine)) in rows {
        let condition = match problem {
            Some(text) => Condition::new(kind, true, bad, text),
            None => Condition::new(kind, false, good, fine),
        };
        set_condition(&mut conditions, condition, now);
    }
    let encode = |c: &[Condition]| json!({"conditions": c});
    let difference = merge_difference(&encode(&namespace.status.conditions), &encode(&conditions));
    let changed = difference.as_object().is_some_and(|d| !d.is_empty());
    changed.then(|| Step::status(&NAMESPACES, &namespace.metadata, difference))
}

/// Takes our finalizer away, which lets the namespace go.
async fn finalize(context: &Context, namespace: &Namespace) -> Result<(), ClientError> {
    let left: Vec<_> = namespace.spec.finalizers.iter().filter(|f| *f != FINALIZER).collect();
    let body = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": namespace.metadata.name, "uid": namespace.metadata.uid},
        "spec": {"finalizers": left},
    });
    let target = NAMESPACES.object("", &namespace.metadata.name).subresource("finalize");
    match context.client.update::<Value>(&target, &body).await {
        Err(error) if !error.not_found() && !error.conflict() => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_remains_is_told_once() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut remains = Remains::default();
        remains.resources.push(("pods.".to_owned(), 2));
        remains.finalizers.insert("example.com/x".to_owned(), 1);
        let namespace = Namespace::default();
        let step = plan_conditions(&namespace, &remains, now).unwrap();
        let text = format!("{step:?}");
        assert!(text.contains("Some resources are remaining: pods. has 2 resource instances"), "{text}");
        assert!(text.contains("example.com/x in 1 resource instances"), "{text}");
        let Step::Patch { patch: copepod_client::Patch::Merge(body), .. } = step else {
            panic!("a merge patch")
        };
        let told: Namespace = serde_json::from_value(body).unwrap();
        assert_eq!(plan_conditions(&told, &remains, now), None);
        let pods = Remains { pods_first: true, ..remains };
        let text = format!("{:?}", plan_conditions(&namespace, &pods, now));
        assert!(text.contains("All content successfully removed"), "{text}");
    }
}
