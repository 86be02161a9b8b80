//! Names and conditions of a definition. Pure.

use std::collections::BTreeSet;

use copepod_api::meta;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::metadata::time;

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// Group and plural.
pub(super) fn resource(definition: &Value) -> (String, String) {
    (text(definition, "/spec/group").to_owned(), text(definition, "/spec/names/plural").to_owned())
}

/// Whether a condition is true.
pub(super) fn is_true(definition: &Value, type_: &str) -> bool {
    condition(definition, type_).is_some_and(|c| c["status"] == "True")
}

fn condition<'a>(definition: &'a Value, type_: &str) -> Option<&'a Value> {
    let list = definition.pointer("/status/conditions").and_then(Value::as_array)?;
    list.iter().find(|c| c["type"] == type_)
}

/// Whether the resource is served.
pub(super) fn established(definition: &Value) -> bool {
    is_true(definition, "Established")
}

/// Sets a condition; its transition time moves only with its status.
pub(super) fn set_condition(definition: &mut Value, mut new: Value, now: Timestamp) {
    let Some(map) = definition.as_object_mut() else { return };
    let list = meta::child_mut(map, "status").entry("conditions").or_insert_with(|| json!([]));
    if list.is_null() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return };
    new["lastTransitionTime"] = time(now).into();
    match list.iter_mut().find(|c| c["type"] == new["type"]) {
        Some(known) => {
            if known["status"] == new["status"] {
                new["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            *known = new;
        }
        None => list.push(new),
    }
}

/// The definition with the status it should have, when that is another one.
pub(super) fn plan(definition: &Value, all: &[Value], now: Timestamp) -> Option<Value> {
    let mut new = definition.clone();
    let (accepted, conflict) = accept(definition, all);
    if let Some(map) = new.as_object_mut() {
        meta::child_mut(map, "status").insert("acceptedNames".to_owned(), accepted);
    }
    let ok = conflict.is_none();
    let (status, reason, message) = match &conflict {
        None => ("True", "NoConflicts", "no conflicts found"),
        Some((reason, message)) => ("False", *reason, message.as_str()),
    };
    let same = condition(definition, "NamesAccepted")
        .is_some_and(|c| c["status"] == status && c["reason"] == reason && c["message"] == message);
    if !same {
        let names = json!({"type": "NamesAccepted", "status": status, "reason": reason, "message": message});
        set_condition(&mut new, names, now);
    }
    if ok && !established(definition) {
        let condition = json!({
            "type": "Established", "status": "True", "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        });
        set_condition(&mut new, condition, now);
    } else if !ok && condition(definition, "Established").is_none() {
        let condition = json!({
            "type": "Established", "status": "False", "reason": "NotAccepted",
            "message": "not all names are accepted",
        });
        set_condition(&mut new, condition, now);
    }
    (new != *definition).then_some(new)
}

/// The names that this definition gets, and the last conflict, which is the one that is told.
fn accept(definition: &Value, all: &[Value]) -> (Value, Option<(&'static str, String)>) {
    let wanted = definition.pointer("/spec/names").cloned().unwrap_or_default();
    let had = definition.pointer("/status/acceptedNames").cloned().unwrap_or_default();
    let (resources, kinds) = taken(definition, all);
    let mut accepted = if had.is_object() { had.clone() } else { json!({}) };
    let mut conflict = None;
    let mut single = |field: &str, used: &BTreeSet<String>, reason: &'static str| {
        let name = wanted[field].as_str().unwrap_or_default();
        let free = wanted[field] == had[field] || !used.contains(name);
        let name = if free { name } else { had[field].as_str().unwrap_or_default() };
        let optional = matches!(field, "singular" | "listKind");
        if let Some(map) = accepted.as_object_mut() {
            crate::metadata::set(map, field, Some(name.into()).filter(|_| !(optional && name.is_empty())));
        }
        (!free).then(|| (reason, format!("{} is already in use", wanted[field])))
    };
    let names =
        [single("plural", &resources, "PluralConflict"), single("singular", &resources, "SingularConflict")];
    let more = [single("kind", &kinds, "KindConflict"), single("listKind", &kinds, "ListKindConflict")];
    let shorts = wanted["shortNames"].as_array().cloned().unwrap_or_default();
    let own = had["shortNames"].as_array().cloned().unwrap_or_default();
    let used = |name: &&Value| !own.contains(name) && resources.contains(name.as_str().unwrap_or_default());
    let short = shorts.iter().find(used);
    let short = short.map(|name| ("ShortNamesConflict", format!("{name} is already in use")));
    if short.is_none() {
        copy(&mut accepted, &wanted, "shortNames");
    }
    for found in names.into_iter().chain([short]).chain(more) {
        conflict = found.or(conflict);
    }
    copy(&mut accepted, &wanted, "categories");
    (accepted, conflict)
}

fn copy(to: &mut Value, from: &Value, field: &str) {
    if let Some(map) = to.as_object_mut() {
        crate::metadata::set(map, field, from.get(field).filter(|v| !v.is_null()).cloned());
    }
}

/// Names that other definitions of the group have.
fn taken(definition: &Value, all: &[Value]) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut resources, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    let others = all.iter().filter(|other| {
        text(other, "/spec/group") == text(definition, "/spec/group")
            && meta::name(other) != meta::name(definition)
    });
    for other in others {
        let names = other.pointer("/status/acceptedNames").cloned().unwrap_or_default();
        let get = |field: &str| names[field].as_str().map(str::to_owned).filter(|n| !n.is_empty());
        resources.extend(get("plural").into_iter().chain(get("singular")));
        resources.extend(
            names["shortNames"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|n| n.as_str().map(str::to_owned)),
        );
        kinds.extend(get("kind").into_iter().chain(get("listKind")));
    }
    (resources, kinds)
}
