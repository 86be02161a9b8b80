//! Certificate signing requests.

use serde_json::{Value, json};

use crate::hooks::HookContext;
use crate::kinds::defaults::{Object, map_mut};
use crate::kinds::kind::Kind;

/// Certificate signing requests.
pub(crate) static KIND: Kind = Kind { prepare_create, prepare_update, prepare_status, ..Kind::PLAIN };

/// Who asks is the server's to write.
fn prepare_create(cx: &HookContext<'_>, new: &mut Value) {
    let Some(object) = new.as_object_mut() else { return };
    object.insert("status".to_owned(), Object::new().into());
    let spec = map_mut(object, "spec");
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    let user = cx.user;
    for (field, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            spec.insert(field.to_owned(), text.clone().into());
        }
    }
    if !user.groups.is_empty() {
        spec.insert("groups".to_owned(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        spec.insert("extra".to_owned(), json!(user.extra));
    }
}

/// The spec never changes; `approval` changes conditions only.
fn prepare_update(cx: &HookContext<'_>, new: &mut Value, old: &Value) {
    let conditions = new.pointer("/status/conditions").cloned();
    for part in ["spec", "status"] {
        if let Some(kept) = old.get(part) {
            new[part] = kept.clone();
        }
    }
    if cx.subresource == Some("approval")
        && let Some(object) = new.as_object_mut()
    {
        let status = map_mut(object, "status");
        match conditions {
            Some(conditions) => drop(status.insert("conditions".to_owned(), conditions)),
            None => drop(status.remove("conditions")),
        }
        date_conditions(cx, new, old);
    }
}

fn conditions(request: &Value) -> Vec<Value> {
    request.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// `status` neither approves nor denies.
fn prepare_status(cx: &HookContext<'_>, new: &mut Value, old: &Value) {
    let decided = |c: &Value| matches!(c.get("type").and_then(Value::as_str), Some("Approved" | "Denied"));
    let mut kept: Vec<Value> = conditions(new).into_iter().filter(|c| !decided(c)).collect();
    let was: Vec<Value> = conditions(old).into_iter().filter(decided).collect();
    if !was.is_empty() || conditions(new).iter().any(decided) {
        kept.splice(0..0, was);
        if let Some(object) = new.as_object_mut() {
            map_mut(object, "status").insert("conditions".to_owned(), kept.into());
        }
    }
    date_conditions(cx, new, old);
}

/// New conditions get the time of the request.
fn date_conditions(cx: &HookContext<'_>, new: &mut Value, old: &Value) {
    let now = cx.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let was = conditions(old);
    for condition in new.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        let same = |c: &&Value| c.get("type") == condition.get("type") && c.get("status") == condition.get("status");
        let since = was.iter().find(same).and_then(|c| c.get("lastTransitionTime")).cloned();
        let Some(condition) = condition.as_object_mut() else { continue };
        crate::kinds::defaults::fill(condition, "lastUpdateTime", now.clone());
        crate::kinds::defaults::fill(condition, "lastTransitionTime", since.unwrap_or_else(|| now.clone().into()));
    }
}
