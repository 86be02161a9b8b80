//! Server-side apply and the record of field ownership in `metadata.managedFields`.
//!
//! [`apply`] merges a configuration into the live object; [`update`] records an ordinary write. Both follow
//! upstream's structured merge: an object is a tree of fields whose schema says which lists are keyed, which maps and
//! lists are replaced as a whole; every manager owns a [`FieldSet`]; changing what another manager owns is a
//! conflict for an apply unless forced, and a silent transfer for an update.
//!
//! The caller decodes the applied YAML into a tree first (no pruning: unknown fields are errors here), passes the
//! live object in the request's version, and gives the result of [`apply`] the defaults of its kind afterwards.

use copepod_api::{ApiError, GroupVersionKind, meta, status::Reason};
use serde_json::{Map, Value};

use crate::{
    canonical,
    decode::{self, FieldValidation},
    node::SchemaRef,
};

mod atom;
mod conflict;
mod entries;
mod fieldset;
mod merge;
mod mutation;
mod path;
#[cfg(test)]
mod tests;
mod typed;
mod updater;

use entries::{ManagerId, Managers};
pub use fieldset::FieldSet;
pub use mutation::merge_unowned;
pub use path::PathElement;
pub(crate) use path::equal as value_equal;
use updater::{Step, Stop};

/// The manager that owns what an object held before it was first applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The marker of the write in progress, so that it first competes with its own manager's older entry.
const CURRENT: &str = "current-operation";

/// kubectl's record of client-side apply.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Total bytes of annotations an object may have.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Conversion of objects to other versions of their kind.
pub trait Versions {
    /// The object in `api_version` and that version's schema; none when the version is not served (any more).
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, SchemaRef<'_>)>;
}

/// A kind with one version.
#[derive(Debug, Clone, Copy, Default)]
pub struct OneVersion;

impl Versions for OneVersion {
    fn convert(&self, _object: &Value, _api_version: &str) -> Option<(Value, SchemaRef<'_>)> {
        None
    }
}

/// Who writes what through which endpoint.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The root schema of the object's kind in the request's version.
    pub schema: SchemaRef<'a>,
    /// The kind of the request's version.
    pub gvk: &'a GroupVersionKind,
    /// `fieldManager`, or the first part of the user agent; empty is recorded as `unknown`.
    pub manager: &'a str,
    /// The subresource, such as `status`; empty for the object itself.
    pub subresource: &'a str,
    /// Fields that the endpoint resets, with everything below them; nobody comes to own them through it.
    pub reset: &'a FieldSet,
    /// Conversion for managers of other versions.
    pub versions: &'a dyn Versions,
    /// The current time, RFC 3339 in whole seconds, UTC.
    pub now: &'a str,
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Request({} by {:?})", self.gvk, self.manager)
    }
}

/// Metadata that no entry records.
fn stripped() -> FieldSet {
    FieldSet::of(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
}

impl<'a> Request<'a> {
    fn step<'s>(&'s self, api_version: &'s str) -> Step<'s>
    where
        'a: 's,
    {
        Step { schema: self.schema, api_version, ignored: self.reset, versions: self.versions }
    }

    fn id(&self, manager: &str, operation: &str, api_version: &str) -> ManagerId {
        ManagerId {
            manager: if manager.is_empty() { "unknown" } else { manager }.to_owned(),
            operation: operation.to_owned(),
            api_version: if operation == "Apply" { "" } else { api_version }.to_owned(),
            subresource: self.subresource.to_owned(),
        }
    }

    /// What a new object of the kind holds before anything is set.
    fn empty(&self) -> Value {
        let mut object = Value::Object(Map::new());
        canonical::canonicalize(&mut object, self.schema);
        if !self.schema.is_typed()
            && let Value::Object(map) = &mut object
        {
            map.insert("apiVersion".to_owned(), self.gvk.api_version().into());
            map.insert("kind".to_owned(), self.gvk.kind.as_str().into());
        }
        object
    }

    /// Records a write by `manager` that turned `old` into `new`; both without managed fields.
    fn record(&self, old: &Value, new: &Value, managers: &mut Managers, manager: &str) -> Result<(), Stop> {
        let api_version = self.gvk.api_version();
        let current = self.id(CURRENT, "Update", &api_version);
        self.step(&api_version).update(old, new, managers, &current)?;
        managers.subtract(&current, &stripped());
        if let Some(mut entry) = managers.entries.remove(&current) {
            let id = self.id(manager, "Update", &api_version);
            if let Some(previous) = managers.entries.get(&id) {
                entry.set = entry.set.union(&previous.set);
            }
            entry.time = Some(self.now.to_owned());
            managers.entries.insert(id, entry);
        }
        managers.cap();
        Ok(())
    }
}

fn managed_list(object: &Value) -> Option<&Value> {
    object.pointer("/metadata/managedFields")
}

fn without_managed(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("managedFields");
    }
    object
}

fn set_managed(object: &mut Value, list: Option<Value>) {
    match list {
        Some(list) => {
            meta::metadata_mut(object).insert("managedFields".to_owned(), list);
        }
        None => {
            if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                meta.remove("managedFields");
            }
        }
    }
}

/// Records the managers of an ordinary write: create (`live` is `None`), update, patch.
///
/// `new` may carry managed fields of its own: valid ones replace the live ones, `[]` or `[{}]` resets them, anything
/// else is ignored; through a subresource they are always ignored. When the record cannot be made, the live one is
/// kept.
pub fn update(live: Option<&Value>, new: &mut Value, request: &Request<'_>) {
    let empty;
    let old = match live {
        Some(live) => live,
        None => {
            empty = request.empty();
            &empty
        }
    };
    let live_managers = || Managers::decode(managed_list(old)).unwrap_or_default();
    let given = managed_list(new).filter(|_| request.subresource.is_empty());
    let mut managers = if entries::is_reset(given) {
        Managers::default()
    } else {
        let given = Managers::decode(given).ok().filter(|managers| !managers.entries.is_empty());
        given.unwrap_or_else(live_managers)
    };
    let object = without_managed(new);
    // An object that was never tracked stays so until it is applied.
    let untracked = managers.entries.is_empty() && !meta::uid(old).is_empty();
    let recorded = if untracked {
        Ok(())
    } else {
        request.record(&without_managed(old), &object, &mut managers, request.manager)
    };
    let list = match recorded {
        Ok(()) => managers.encode(),
        Err(_) => managed_list(old).cloned(),
    };
    *new = object;
    set_managed(new, list);
}

/// Applies a configuration. `live` is `None` when the object is to be created.
///
/// Returns the merged object, canonical, with its managed fields; the caller adds defaults, runs admission and
/// writes it. It equals `live` when nothing changed.
///
/// # Errors
/// 400 for a configuration of another kind or one with managed fields, 409 with one cause per conflict, 500 with
/// upstream's text for a configuration that does not fit the schema.
pub fn apply(
    live: Option<&Value>,
    config: &Value,
    request: &Request<'_>,
    force: bool,
) -> Result<Value, ApiError> {
    check_config(config, request)?;
    let empty;
    let live = match live {
        Some(live) => live,
        None => {
            empty = request.empty();
            &empty
        }
    };
    let mut managers = Managers::decode(managed_list(live))
        .map_err(|error| failed(format!("failed to decode managed fields: {error}")))?;
    let live_plain = without_managed(live);
    if managers.entries.is_empty() {
        request
            .record(&request.empty(), &live_plain, &mut managers, BEFORE_FIRST_APPLY)
            .map_err(|stop| stopped(stop, "failed to create manager for existing fields: "))?;
    }
    let merged = apply_or_conflict(&live_plain, config, &mut managers, request, force)?;
    let id = request.id(request.manager, "Apply", "");
    managers.subtract(&id, &stripped());
    let changed = !path::equal(&merged, &live_plain);
    let mut object = if changed {
        if let Some(entry) = managers.entries.get_mut(&id) {
            entry.time = Some(request.now.to_owned());
        }
        decode::decode_value(&merged, request.schema, FieldValidation::Ignore)
            .map_err(|error| error.to_api_error(request.gvk))?
            .object
    } else {
        live_plain
    };
    set_managed(&mut object, managers.encode());
    keep_last_applied(&mut object, config, request);
    Ok(object)
}

fn check_config(config: &Value, request: &Request<'_>) -> Result<(), ApiError> {
    let text = |key: &str| config.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version != request.gvk.api_version() || kind != request.gvk.kind {
        // Go writes the empty group of a group version with its slash.
        let slash = if api_version.contains('/') { "" } else { "/" };
        return Err(ApiError::bad_request(format!("invalid object type: {slash}{api_version}, Kind={kind}")));
    }
    if managed_list(config).is_some_and(|list| !list.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let errors = typed::validate(config, atom::Type::of(request.schema), false);
    if errors.is_empty() {
        return Ok(());
    }
    let (namespace, name) = (meta::namespace(config), meta::name(config));
    let errors = typed::error_text(&errors);
    Err(failed(format!(
        "failed to create typed patch object ({namespace}/{name}; {}/{}, Kind={}): {errors}",
        request.gvk.group, request.gvk.version, request.gvk.kind
    )))
}

/// The merge itself. kubectl may take over what its client-side apply set before, even if others seem to own it.
fn apply_or_conflict(
    live: &Value,
    config: &Value,
    managers: &mut Managers,
    request: &Request<'_>,
    force: bool,
) -> Result<Value, ApiError> {
    let api_version = request.gvk.api_version();
    let step = request.step(&api_version);
    let id = request.id(request.manager, "Apply", "");
    let before = managers.clone();
    let conflicts = match step.apply(live, config, managers, &id, force) {
        Ok(object) => return Ok(object),
        Err(Stop::Conflicts(conflicts)) => conflicts,
        Err(stop) => return Err(stopped(stop, "")),
    };
    let allowed = match request.manager {
        "kubectl" => conflict::set_by_client_apply(live, request),
        _ => None,
    };
    let remaining: Vec<_> =
        conflicts.into_iter().filter(|c| !allowed.as_ref().is_some_and(|set| set.has(&c.path))).collect();
    if !remaining.is_empty() {
        return Err(conflict::to_api_error(&remaining));
    }
    *managers = before;
    step.apply(live, config, managers, &id, true).map_err(|stop| stopped(stop, ""))
}

fn stopped(stop: Stop, prefix: &str) -> ApiError {
    match stop {
        Stop::Conflicts(conflicts) => conflict::to_api_error(&conflicts),
        Stop::Failed(text) => failed(format!("{prefix}{text}")),
    }
}

/// Upstream answers such errors with 500 and no reason.
fn failed(text: String) -> ApiError {
    let mut error = ApiError::new(Reason::InternalError, text);
    error.status_mut().reason = String::new();
    error
}

/// `kubectl apply --server-side` keeps the annotation of client-side apply current where it exists.
fn keep_last_applied(object: &mut Value, config: &Value, request: &Request<'_>) {
    let tracked = meta::annotation(object, LAST_APPLIED).is_some_and(|text| !text.is_empty());
    if request.manager != "kubectl" || !tracked {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    let text = format!("{config}\n");
    let annotations = meta::child_mut(meta::metadata_mut(object), "annotations");
    annotations.insert(LAST_APPLIED.to_owned(), text.into());
    let size: usize =
        annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > MAX_ANNOTATIONS {
        annotations.remove(LAST_APPLIED);
    }
}

/// Keeps the old record when a write changed nothing but its timestamps, so that it can be dropped as a no-op.
pub fn keep_timestamps(old: &Value, new: &mut Value) {
    let (Some(Value::Array(before)), Some(Value::Array(after))) = (managed_list(old), managed_list(new))
    else {
        return;
    };
    let timeless = |entry: &Value| {
        let mut entry = entry.clone();
        entry.as_object_mut().map(|map| map.remove("time"));
        entry
    };
    let same_owners =
        before.len() == after.len() && before.iter().map(timeless).eq(after.iter().map(timeless));
    if !same_owners || before == after || without_managed(old) != without_managed(new) {
        return;
    }
    let kept = Value::Array(before.clone());
    set_managed(new, Some(kept));
}
