//! The newest ReplicaSet: found, or made, and kept in step; and the numbers of revisions.

use std::sync::Arc;

use copepod_client::resources::{DEPLOYMENTS, REPLICA_SETS};
use copepod_client::{ClientError, EventKind, Labels, Meta};
use serde_json::{Value, json};

use super::State;
use super::rollout::new_size;
use crate::context::Context;
use crate::ownership::controller_reference;
use crate::step::{Step, event, execute, execute_all};
use crate::template::{hash, with_label, without_label};
use crate::views::ReplicaSet;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";
const HASH: &str = "pod-template-hash";
/// Annotations of a Deployment that its ReplicaSets do not take over.
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];

/// A template as revisions are compared by.
pub(super) fn bare(template: &Value) -> Value {
    without_label(template, HASH)
}

pub(super) fn number(meta: &Meta) -> i64 {
    meta.annotation(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Makes the newest ReplicaSet, or keeps it in step.
pub(super) async fn ensure(context: &Context, state: &mut State) -> Result<(), ClientError> {
    if state.new.is_some() { keep(context, state).await } else { make(context, state).await }
}

/// Gives the newest ReplicaSet the highest revision and the Deployment's annotations.
pub(super) async fn keep(context: &Context, state: &State) -> Result<(), ClientError> {
    let Some(set) = &state.new else { return Ok(()) };
    let deployment = &state.deployment;
    let wanted = annotations(state, Some(set));
    let changed: Labels =
        wanted.into_iter().filter(|(key, value)| set.metadata.annotation(key) != Some(value)).collect();
    let seconds = deployment.spec.min_ready_seconds;
    let mut steps = Vec::new();
    if !changed.is_empty() || set.spec.min_ready_seconds != seconds {
        let body = json!({"metadata": {"annotations": changed}, "spec": {"minReadySeconds": seconds}});
        steps.push(Step::merge(&REPLICA_SETS, &set.metadata, body));
    }
    let revision = next(state, Some(set)).to_string();
    steps.extend(mark(state, &revision));
    execute_all(context, steps).await
}

/// The Deployment shows the revision of its newest ReplicaSet. Written with the status: an annotation that changes
/// otherwise counts as a new generation of the Deployment.
fn mark(state: &State, revision: &str) -> Option<Step> {
    let meta = &state.deployment.metadata;
    let stale = meta.annotation(REVISION) != Some(revision);
    stale.then(|| {
        let body = json!({"metadata": {"annotations": {REVISION: revision}}});
        Step::merge(&DEPLOYMENTS, meta, body).of("status")
    })
}

/// One more than all old ones; a ReplicaSet that is ahead already keeps its number.
fn next(state: &State, new: Option<&ReplicaSet>) -> i64 {
    let highest = state.old.iter().map(|s| number(&s.metadata)).max().unwrap_or(0);
    new.map_or(0, |s| number(&s.metadata)).max(highest + 1)
}

fn annotations(state: &State, new: Option<&ReplicaSet>) -> Labels {
    let deployment = &state.deployment;
    let mut wanted = deployment.metadata.annotations.clone();
    wanted.retain(|key, _| !OWN.contains(&key.as_str()));
    let revision = next(state, new);
    wanted.insert(REVISION.to_owned(), revision.to_string());
    if let Some(set) = new {
        let before = number(&set.metadata);
        if before != 0 && before != revision {
            let history = set.metadata.annotation(HISTORY).map_or(String::new(), |h| format!("{h},"));
            wanted.insert(HISTORY.to_owned(), format!("{history}{before}"));
        }
    } else {
        wanted.insert(DESIRED.to_owned(), deployment.replicas().to_string());
        wanted.insert(MAX.to_owned(), (deployment.replicas() + deployment.bounds().0).to_string());
    }
    wanted
}

async fn make(context: &Context, state: &mut State) -> Result<(), ClientError> {
    let deployment = Arc::clone(&state.deployment);
    let template = deployment.spec.template.value();
    let hash = hash(&bare(&template), deployment.status.collision_count);
    let name = format!("{}-{hash}", deployment.metadata.name);
    let labelled = with_label(&template, HASH, &hash);
    let mut selector = deployment.spec.selector.source.value();
    if let Value::Object(selector) = &mut selector {
        copepod_api::meta::child_mut(selector, "matchLabels").insert(HASH.to_owned(), json!(hash));
    }
    let size = new_size(state);
    let body = json!({
        "apiVersion": REPLICA_SETS.api_version(), "kind": REPLICA_SETS.kind,
        "metadata": {
            "name": name, "namespace": deployment.metadata.namespace,
            "labels": labelled.pointer("/metadata/labels"),
            "annotations": annotations(state, None),
            "ownerReferences": [controller_reference(&DEPLOYMENTS, &deployment.metadata)],
        },
        "spec": {
            "replicas": size, "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": selector, "template": labelled,
        },
    });
    let namespace = deployment.metadata.namespace.clone();
    let step = Step::Create { resource: REPLICA_SETS, namespace, body };
    let result = execute(context, vec![step]).await.pop().unwrap_or(Ok(Value::Null));
    let about = (&DEPLOYMENTS, &deployment.metadata);
    match result {
        Ok(_) => {
            if size > 0 {
                let text = format!("Scaled up replica set {name} from 0 to {size}");
                event(context, about, EventKind::Normal, "ScalingReplicaSet", text);
            }
            let revision = next(state, None).to_string();
            execute_all(context, mark(state, &revision).into_iter().collect()).await
        }
        // Another template has the same hash: count the clash, which changes the next hash.
        Err(error) if error.is_already_exists() => {
            let count = deployment.status.collision_count.unwrap_or(0) + 1;
            let step = Step::status(&DEPLOYMENTS, &deployment.metadata, json!({"collisionCount": count}));
            execute_all(context, vec![step]).await?;
            Err(error)
        }
        Err(error) if error.namespace_terminating() => Ok(()),
        Err(error) => {
            let text = format!("Failed to create new replica set {name:?}: {error}");
            event(context, about, EventKind::Warning, "ReplicaSetCreateError", text);
            Err(error)
        }
    }
}
