//! Remembered templates of DaemonSets and StatefulSets: ControllerRevisions.

use std::sync::Arc;

use copepod_client::resources::CONTROLLER_REVISIONS;
use copepod_client::{ClientError, Meta, ResourceRef};
use serde_json::{Value, json};

use crate::context::Context;
use crate::ownership::{Claimant, controller_reference, plan_claim};
use crate::step::{Step, execute, execute_all};
use crate::template::hash;
use crate::views::{ControllerRevision, Selector};

/// Label of pods and revisions that tells which revision they are of.
pub(crate) const HASH: &str = "controller-revision-hash";

/// A workload that remembers its templates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner<'a> {
    /// Its resource.
    pub(crate) resource: &'a ResourceRef,
    /// Its metadata.
    pub(crate) meta: &'a Meta,
    /// What it selects; its revisions carry the labels of its template.
    pub(crate) selector: &'a Selector,
    /// How many old revisions to keep.
    pub(crate) limit: i64,
    /// How often its names have clashed.
    pub(crate) collisions: Option<i64>,
}

/// All revisions, oldest first, and the one that has the present template.
#[derive(Debug)]
pub(crate) struct History {
    /// All, ordered by revision.
    pub(crate) all: Vec<Arc<ControllerRevision>>,
    /// The present one.
    pub(crate) current: Arc<ControllerRevision>,
}

/// What a revision remembers of a template.
fn data(template: &Value) -> Value {
    let mut template = template.clone();
    if let Value::Object(template) = &mut template {
        template.insert("$patch".to_owned(), json!("replace"));
    }
    json!({"spec": {"template": template}})
}

/// The hash in a revision's name and labels.
pub(crate) fn hash_of(revision: &ControllerRevision) -> &str {
    revision.metadata.label(HASH)
}

fn revisions(context: &Context, owner: Owner<'_>) -> (Vec<Arc<ControllerRevision>>, Vec<Step>) {
    let claimant =
        Claimant { resource: owner.resource, meta: owner.meta, selector: &owner.selector.compiled };
    let candidates = context.caches.controller_revisions.list_namespace(&owner.meta.namespace);
    let claimed = plan_claim(claimant, &CONTROLLER_REVISIONS, candidates);
    let mut all = claimed.owned;
    all.sort_by(|a, b| (a.revision, &a.metadata.name).cmp(&(b.revision, &b.metadata.name)));
    (all, claimed.steps)
}

/// Finds the revision of the present template, or makes it; a remembered template that came back becomes the newest.
pub(crate) async fn ensure(
    context: &Context,
    owner: Owner<'_>,
    template: &Value,
) -> Result<History, ClientError> {
    let (all, steps) = revisions(context, owner);
    execute_all(context, steps).await?;
    let data = data(template);
    let highest = all.last().map_or(0, |r| r.revision);
    if let Some(found) = all.iter().rev().find(|r| r.data.value() == data) {
        if found.revision < highest {
            let step = Step::merge(&CONTROLLER_REVISIONS, &found.metadata, json!({"revision": highest + 1}));
            execute_all(context, vec![step]).await?;
        }
        let (all, current) = (all.clone(), Arc::clone(found));
        return Ok(History { all, current });
    }
    let body = plan_revision(owner, template, &data, highest + 1);
    let namespace = owner.meta.namespace.clone();
    let step = Step::Create { resource: CONTROLLER_REVISIONS, namespace, body };
    let result = execute(context, vec![step]).await.pop().unwrap_or(Ok(Value::Null));
    if let Err(error) = &result
        && error.is_already_exists()
    {
        let count = owner.collisions.unwrap_or(0) + 1;
        let step = Step::status(owner.resource, owner.meta, json!({"collisionCount": count}));
        execute_all(context, vec![step]).await?;
    }
    let made: ControllerRevision = serde_json::from_value(result?)
        .map_err(|source| ClientError::Body { what: "a new controllerrevision".to_owned(), source })?;
    let current = Arc::new(made);
    let mut all = all;
    all.push(Arc::clone(&current));
    Ok(History { all, current })
}

/// A new revision; it carries the annotations of its owner, where `kubectl rollout history` finds the cause.
fn plan_revision(owner: Owner<'_>, template: &Value, data: &Value, revision: i64) -> Value {
    let hash = hash(template, owner.collisions);
    let mut labels = template.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({}));
    labels[HASH] = json!(hash);
    json!({
        "apiVersion": CONTROLLER_REVISIONS.api_version(), "kind": CONTROLLER_REVISIONS.kind,
        "metadata": {
            "name": format!("{}-{hash}", owner.meta.name), "namespace": owner.meta.namespace, "labels": labels,
            "annotations": owner.meta.annotations,
            "ownerReferences": [controller_reference(owner.resource, owner.meta)],
        },
        "data": data, "revision": revision,
    })
}

/// Deletes the oldest revisions that no pod is of and that the limit has no room for.
pub(crate) fn plan_clean_up(owner: Owner<'_>, history: &History, live: &[&str]) -> Vec<Step> {
    let used = |r: &ControllerRevision| {
        r.metadata.name == history.current.metadata.name || live.contains(&hash_of(r))
    };
    let idle: Vec<_> = history.all.iter().filter(|r| !used(r)).collect();
    let surplus = idle.len().saturating_sub(usize::try_from(owner.limit).unwrap_or(0));
    idle.iter().take(surplus).map(|r| Step::delete(&CONTROLLER_REVISIONS, &r.metadata)).collect()
}

#[cfg(test)]
mod tests {
    use copepod_client::resources::DAEMON_SETS;

    use super::*;

    #[test]
    fn a_revision_carries_labels_of_the_template_and_annotations_of_the_owner() {
        let meta: Meta = serde_json::from_value(json!({
            "name": "d", "namespace": "n", "uid": "u", "annotations": {"kubernetes.io/change-cause": "apply"}}))
        .unwrap();
        let selector = Selector::default();
        let owner =
            Owner { resource: &DAEMON_SETS, meta: &meta, selector: &selector, limit: 10, collisions: None };
        let template = json!({"metadata": {"labels": {"app": "d"}}});
        let revision = plan_revision(owner, &template, &data(&template), 3);
        let hash = revision["metadata"]["labels"][HASH].as_str().unwrap();
        assert_eq!(revision["metadata"]["name"], format!("d-{hash}"));
        assert_eq!(revision["metadata"]["labels"]["app"], "d");
        assert_eq!(revision["metadata"]["annotations"], json!({"kubernetes.io/change-cause": "apply"}));
        assert_eq!(revision["revision"], 3);
    }
}
