//! The end of a definition: its objects go first.

use copepod_api::{ApiResult, GroupVersionResource, Verb, meta};
use serde_json::{Value, json};

use super::{FINALIZER, names};
use crate::{
    registry::Registry,
    request::{DeleteOptions, ListOptions, RequestContext, Target},
    store::{Change, Part, Store},
};

/// Deletes the objects, and the finalizer once none is left. Objects with finalizers of their own are waited for:
/// their removal wakes nobody, so the caller tries again.
pub(super) async fn run(registry: &Registry, store: &Store, definition: &Value) -> ApiResult<()> {
    let cx = RequestContext::internal();
    let (group, plural) = names::resource(definition);
    if names::established(definition) {
        let rows = registry.rows().into_iter().filter(|d| d.custom && d.group == group && d.plural == plural);
        // The stored version first: it needs no conversion.
        let served = rows.min_by_key(|d| d.version != d.storage_version);
        if let Some(def) = served.filter(|def| def.verbs.has(Verb::DeleteCollection)) {
            let gvr = GroupVersionResource::new(&group, &def.version, &plural);
            if let Some(objects) = registry.store(&gvr) {
                let list = ListOptions::default();
                Box::pin(objects.delete_collection(&cx, None, &DeleteOptions::default(), &list)).await?;
                let left = objects.list(&cx, None, &list).await?.items.len();
                if left > 0 {
                    return Err(copepod_api::ApiError::internal(format!("{left} objects are left")));
                }
            }
        }
    }
    let target = Target::new(None, meta::name(definition));
    let make = |old: Option<&Value>| {
        let mut new = old.cloned().unwrap_or_default();
        let condition = json!({
            "type": "Terminating", "status": "False", "reason": "InstanceDeletionCompleted",
            "message": "removed all instances",
        });
        names::set_condition(&mut new, condition, cx.now);
        let left: Vec<&str> =
            old.map(meta::finalizers).unwrap_or_default().into_iter().filter(|f| *f != FINALIZER).collect();
        crate::metadata::set(
            meta::metadata_mut(&mut new),
            "finalizers",
            (!left.is_empty()).then(|| json!(left)),
        );
        Ok(new)
    };
    let change = Change { target: &target, part: Part::Status, make: &make, create: false, owned: true };
    match Box::pin(store.change(&cx, &change)).await {
        Err(error) if !error.is(copepod_api::Reason::NotFound) => Err(error),
        _ => Ok(()),
    }
}

/// Marks a definition that is to go: its objects keep it until they are deleted.
pub(super) fn mark(definition: &mut Value, now: jiff::Timestamp) {
    let mut finalizers: Vec<Value> = meta::finalizers(definition).into_iter().map(Value::from).collect();
    if !finalizers.iter().any(|f| f == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    meta::metadata_mut(definition).insert("finalizers".to_owned(), finalizers.into());
    let condition = json!({
        "type": "Terminating", "status": "True", "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    });
    names::set_condition(definition, condition, now);
}
