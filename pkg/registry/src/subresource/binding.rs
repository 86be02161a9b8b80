//! `pods/binding`: the scheduler puts a pod on a node.

use copepod_api::{
    ApiError, ApiResult, FieldError, FieldErrors, FieldPath, GroupResource, GroupVersionKind, meta,
};
use serde_json::{Value, json};

use super::{check_preconditions, success};
use crate::{
    codec, metadata,
    object::Object,
    request::{Body, RequestContext, Target},
    store::{Change, Part, Store},
};

pub(super) async fn create(
    store: &Store,
    cx: &RequestContext,
    target: &Target,
    body: &Body,
) -> ApiResult<Object> {
    let gvk = GroupVersionKind::new("", "v1", "Binding");
    let schema = copepod_schema::builtin().kind("", "v1", "Binding");
    let schema = schema.ok_or_else(|| ApiError::internal("no schema of Binding"))?;
    let mut binding = codec::decode_as(cx, body, &gvk, schema)?;
    if meta::name(&binding) != target.name {
        return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
    }
    validate(&binding)?;
    store.admit_post(cx, target, &gvk, &mut binding).await?;
    let pod = Target::new(target.namespace.as_deref(), &target.name);
    let make = |old: Option<&Value>| {
        let old = old.ok_or_else(|| store.not_found(&target.name))?;
        let (uid, version) = (meta::uid(&binding), meta::resource_version(&binding));
        check_preconditions(store, target, old, uid, version)?;
        assign(old, &binding, cx)
            .map_err(|why| ApiError::conflict(&GroupResource::new("", "pods/binding"), &target.name, &why))
    };
    let change = Change { target: &pod, part: Part::Sub("binding"), make: &make, create: false, owned: true };
    Box::pin(store.change_stored(cx, &change)).await?;
    Ok(success())
}

fn validate(binding: &Value) -> ApiResult<()> {
    let kind = binding.pointer("/target/kind").and_then(Value::as_str).unwrap_or_default();
    let name = binding.pointer("/target/name").and_then(Value::as_str).unwrap_or_default();
    let path = FieldPath::new("target");
    let mut errors = FieldErrors::new();
    if !kind.is_empty() && kind != "Node" {
        errors.push(FieldError::not_supported(&path.child("kind"), kind, &["Node", "<empty>"]));
    }
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    match errors.as_slice() {
        [] => Ok(()),
        // Upstream answers with the bare texts.
        errors => {
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let text = if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) };
            Err(crate::error::unreasoned(&text))
        }
    }
}

/// The pod on its node, or why it cannot go there.
fn assign(old: &Value, binding: &Value, cx: &RequestContext) -> Result<Value, String> {
    let name = meta::name(old);
    if meta::deletion_timestamp(old).is_some() {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = old.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
    if !node.is_empty() {
        return Err(format!("pod {name} is already assigned to node {node:?}"));
    }
    let gates = old.pointer("/spec/schedulingGates").and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut pod = old.clone();
    for field in ["annotations", "labels"] {
        let given = binding.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_object);
        for (key, value) in given.into_iter().flatten() {
            meta::child_mut(meta::metadata_mut(&mut pod), field).insert(key.clone(), value.clone());
        }
    }
    if let Some(map) = pod.as_object_mut() {
        let target = binding.pointer("/target/name").cloned().unwrap_or_default();
        meta::child_mut(map, "spec").insert("nodeName".to_owned(), target);
        let status = meta::child_mut(map, "status");
        status.remove("nominatedNodeName");
        let condition = json!({"type": "PodScheduled", "status": "True"});
        set_condition(status, condition, cx);
    }
    Ok(pod)
}

/// Sets a pod condition; its transition time moves only with its status.
pub(super) fn set_condition(
    status: &mut serde_json::Map<String, Value>,
    mut condition: Value,
    cx: &RequestContext,
) {
    let list = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else { return };
    condition["lastProbeTime"] = Value::Null;
    condition["lastTransitionTime"] = metadata::time(cx.now).into();
    let known = list.iter_mut().find(|c| c.get("type") == condition.get("type"));
    match known {
        Some(known) => {
            if known.get("status") == condition.get("status") {
                condition["lastTransitionTime"] =
                    known.get("lastTransitionTime").cloned().unwrap_or_default();
            }
            *known = condition;
        }
        None => list.push(condition),
    }
}
