//! Object metadata: what the server fills in, and upstream's checks of what clients send.

use copepod_api::{
    ApiError, ApiResult, FieldError, FieldErrors, FieldPath, GroupVersion, GroupVersionKind, ResourceDef,
    meta, names,
};
use jiff::Timestamp;
use rand::RngExt as _;
use serde_json::{Map, Value};

use crate::request::Warnings;

/// Letters of generated suffixes: no vowels and no look-alikes, so that no word is spelled by accident.
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Longest prefix of a generated name.
const PREFIX: usize = 58;
/// Finalizers that need no domain.
pub(crate) const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
/// Groups whose kinds do not ask for a domain.
const LENIENT_GROUPS: [&str; 7] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "coordination.k8s.io",
    "events.k8s.io",
    "node.k8s.io",
    "policy",
];
/// Most bytes of all annotations together.
const ANNOTATIONS: usize = 256 << 10;

/// A name for `prefix` with five random letters.
pub(crate) fn generate_name(prefix: &str) -> String {
    let mut end = prefix.len().min(PREFIX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let mut rng = rand::rng();
    let letter = |_| char::from(*SUFFIX.get(rng.random_range(0..SUFFIX.len())).unwrap_or(&b'x'));
    let suffix: String = (0..5).map(letter).collect();
    format!("{}{suffix}", prefix.get(..end).unwrap_or_default())
}

/// A time as objects carry it: RFC 3339 in whole seconds.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Puts the namespace of the request into the object.
pub(crate) fn match_namespace(object: &mut Value, namespace: Option<&str>) -> ApiResult<()> {
    let wanted = namespace.unwrap_or_default();
    let found = meta::namespace(object);
    if found == wanted {
        return Ok(());
    }
    if !found.is_empty() && !wanted.is_empty() {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let metadata = meta::metadata_mut(object);
    if wanted.is_empty() {
        metadata.remove("namespace");
    } else {
        metadata.insert("namespace".to_owned(), wanted.into());
    }
    Ok(())
}

/// Takes out of a new object what only the server sets.
pub(crate) fn wipe(object: &mut Value) {
    // A generation is what the client says, in kinds that do not count.
    const OWN: [&str; 6] = [
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "resourceVersion",
        "selfLink",
        "uid",
    ];
    let metadata = meta::metadata_mut(object);
    for field in OWN {
        metadata.remove(field);
    }
}

/// What only the server sets on a new object: identity and time of creation.
pub(crate) fn fill_new(object: &mut Value, now: Timestamp) {
    wipe(object);
    let metadata = meta::metadata_mut(object);
    metadata.insert("creationTimestamp".to_owned(), time(now).into());
    metadata.insert("uid".to_owned(), uuid::Uuid::new_v4().to_string().into());
}

/// Carries over from the old object what an update cannot change, before preparation.
pub(crate) fn keep_identity(new: &mut Value, old: &Value) {
    let old = old.get("metadata").and_then(Value::as_object);
    let old = |field: &str| old.and_then(|m| m.get(field)).filter(|v| !v.is_null()).cloned();
    let metadata = meta::metadata_mut(new);
    set(metadata, "generation", old("generation"));
    metadata.remove("selfLink");
    if metadata.get("uid").is_none_or(|uid| uid.as_str().unwrap_or_default().is_empty()) {
        set(metadata, "uid", old("uid"));
    }
    if let Some(created) = old("creationTimestamp") {
        metadata.insert("creationTimestamp".to_owned(), created);
    }
    if let Some(deleted) = old("deletionTimestamp") {
        metadata.insert("deletionTimestamp".to_owned(), deleted);
        if !metadata.contains_key("deletionGracePeriodSeconds") {
            set(metadata, "deletionGracePeriodSeconds", old("deletionGracePeriodSeconds"));
        }
    }
}

/// Sets or removes a member.
pub(crate) fn set(map: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(map.insert(field.to_owned(), value)),
        None => drop(map.remove(field)),
    }
}

/// A member of the metadata, absent when null or empty.
fn member<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    let value = object.get("metadata")?.get(field)?;
    let empty = match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    (!empty).then_some(value)
}

/// Everything wrong with the metadata of a new object; `check` is the kind's check of names.
pub(crate) fn validate(object: &Value, namespaced: bool, check: impl Fn(&str) -> Vec<String>) -> FieldErrors {
    let path = FieldPath::new("metadata");
    let mut errors = FieldErrors::new();
    if let Some(prefix) = member(object, "generateName").and_then(Value::as_str) {
        // A dash at the end will be followed by letters.
        let whole = match prefix.strip_suffix('-') {
            Some(rest) => format!("{rest}a"),
            None => prefix.to_owned(),
        };
        let field = path.child("generateName");
        errors.extend(check(&whole).into_iter().map(|text| FieldError::invalid(&field, prefix, text)));
    }
    let (name, field) = (meta::name(object), path.child("name"));
    if name.is_empty() {
        errors.push(FieldError::required(&field, "name or generateName is required"));
    } else {
        errors.extend(check(name).into_iter().map(|text| FieldError::invalid(&field, name, text)));
    }
    let (namespace, field) = (meta::namespace(object), path.child("namespace"));
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(FieldError::required(&field, "")),
        (true, false) => {
            let texts = names::dns1123_label(namespace);
            errors.extend(texts.into_iter().map(|text| FieldError::invalid(&field, namespace, text)));
        }
        (false, false) => errors.push(FieldError::forbidden(&field, "not allowed on this type")),
        (false, true) => {}
    }
    errors.extend(common(object, &path));
    errors
}

/// Everything wrong with a change of metadata.
pub(crate) fn validate_update(new: &Value, old: &Value) -> FieldErrors {
    let path = FieldPath::new("metadata");
    let mut errors = FieldErrors::new();
    if meta::deletion_timestamp(old).is_some() {
        let known = meta::finalizers(old);
        let mut added: Vec<&str> = meta::finalizers(new).into_iter().filter(|f| !known.contains(f)).collect();
        added.sort_unstable();
        added.dedup();
        if !added.is_empty() {
            let shown: Vec<String> = added.iter().map(|f| format!("{f:?}")).collect();
            errors.push(FieldError::forbidden(
                &path.child("finalizers"),
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    shown.join(", ")
                ),
            ));
        }
    }
    if meta::resource_version(new).is_empty() {
        errors.push(FieldError::invalid(
            &path.child("resourceVersion"),
            "",
            "must be specified for an update",
        ));
    }
    for field in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        let (new, old) = (member(new, field), member(old, field));
        if new != old {
            let value = new
                .cloned()
                .unwrap_or_else(|| if old.is_some_and(Value::is_string) { "".into() } else { Value::Null });
            errors.push(FieldError::invalid(&path.child(field), value, "field is immutable"));
        }
    }
    errors.extend(labels_and_annotations(new, &path));
    errors.extend(owner_references(new, &path.child("ownerReferences")));
    errors
}

/// Finalizers without a domain, which kinds of the core's making want to know.
pub(crate) fn plain_finalizers(object: &Value, def: &ResourceDef) -> FieldErrors {
    if def.custom || LENIENT_GROUPS.contains(&def.group.as_str()) {
        return FieldErrors::new();
    }
    let field = FieldPath::new("metadata").child("finalizers");
    let plain = |name: &str| !name.contains('/') && !STANDARD_FINALIZERS.contains(&name);
    let finalizers = meta::finalizers(object).into_iter().enumerate();
    finalizers
        .filter(|(_, name)| plain(name))
        .map(|(at, name)| {
            let text = "name is neither a standard finalizer name nor is it fully qualified";
            FieldError::invalid(&field.index(at), name, text)
        })
        .collect()
}

fn common(object: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = labels_and_annotations(object, path);
    errors.extend(owner_references(object, &path.child("ownerReferences")));
    let field = path.child("finalizers");
    let finalizers = meta::finalizers(object);
    for name in &finalizers {
        let texts = names::qualified_name(name);
        errors.extend(texts.into_iter().map(|text| FieldError::invalid(&field, *name, text)));
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let text = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(&field, finalizers, text));
    }
    errors
}

fn labels_and_annotations(object: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let field = path.child("labels");
    for (key, value) in meta::labels(object).into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        errors.extend(
            names::qualified_name(key)
                .into_iter()
                .map(|text| FieldError::invalid(&field, key.as_str(), text)),
        );
        errors.extend(
            names::label_value(value).into_iter().map(|text| FieldError::invalid(&field, value, text)),
        );
    }
    let (field, mut size) = (path.child("annotations"), 0);
    for (key, value) in meta::annotations(object).into_iter().flatten() {
        size += key.len() + value.as_str().map_or(0, str::len);
        let texts = names::qualified_name(&key.to_lowercase());
        errors.extend(texts.into_iter().map(|text| FieldError::invalid(&field, key.as_str(), text)));
    }
    if size > ANNOTATIONS {
        errors.push(FieldError::too_long(&field, ANNOTATIONS));
    }
    errors
}

/// Drops owners that are named again by their UID, and tells the client; `when` says at which point.
pub(crate) fn dedup_owners(object: &mut Value, warnings: &Warnings, when: &str) {
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    let Some(owners) = owners else { return };
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    let mut again: Vec<String> = Vec::new();
    for owner in owners.drain(..) {
        // The same UID with other fields is another entry.
        if kept.contains(&owner) {
            again.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;
    if !again.is_empty() {
        again.dedup();
        warnings.add(format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, \
             and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            again.join(", ")
        ));
    }
}

fn owner_references(object: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let list = member(object, "ownerReferences");
    let mut controller: Option<String> = None;
    for (at, owner) in list.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let item = path.index(at);
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        let version = GroupVersion::parse(text("apiVersion"));
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(field).is_empty() {
                errors.push(FieldError::required(&item.child(field), "must not be empty"));
            } else if field == "apiVersion" && version.as_ref().is_none_or(|v| v.version.is_empty()) {
                let why = "must be <group>/<version> or <version>";
                errors.push(FieldError::invalid(&item.child(field), text(field), why));
            }
        }
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            let gvk = GroupVersionKind::new("", "v1", "Event");
            let why = format!("/{gvk} is disallowed from being an owner");
            errors.push(FieldError::invalid(&item, owner.clone(), why));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                Some(first) => errors.push(FieldError::invalid(
                    path,
                    list.cloned().unwrap_or_default(),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    ),
                )),
                None => controller = Some(this),
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests;
