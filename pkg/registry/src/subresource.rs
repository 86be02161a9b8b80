//! Subresources that are more than a part of their object.

use copepod_api::{ApiError, ApiResult, ResourceDef, meta};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::{
    metadata,
    object::Object,
    request::{Body, RequestContext, Target},
    store::Store,
};

mod binding;
mod eviction;
pub(crate) mod scale;
mod token;

/// Signs tokens of service accounts; the API server's.
pub trait TokenIssuer: Send + Sync {
    /// Answers a TokenRequest for a service account: `spec` defaulted, `status` filled in. `bound` is the pod, secret
    /// or node that `spec.boundObjectRef` names, if any.
    fn issue<'a>(
        &'a self,
        cx: &'a RequestContext,
        account: &'a Value,
        request: Value,
        bound: Option<&'a Value>,
    ) -> BoxFuture<'a, ApiResult<Value>>;
}

/// A POST to a subresource.
pub(crate) async fn create(
    store: &Store,
    cx: &RequestContext,
    target: &Target,
    name: &str,
    body: &Body,
) -> ApiResult<Object> {
    match (store.row.def.plural.as_str(), name) {
        ("pods", "binding") => binding::create(store, cx, target, body).await,
        ("pods", "eviction") => Box::pin(eviction::create(store, cx, target, body)).await,
        ("serviceaccounts", "token") => token::create(store, cx, target, body).await,
        _ => Err(ApiError::no_such_resource()),
    }
}

/// The part of `new` that a subresource covers, in `old`. What of the spec it covers is the kind's to know.
pub(crate) fn merge(name: &str, new: Value, old: &Value) -> Value {
    let mut merged = if name == "approval" { old.clone() } else { new.clone() };
    if let Some(map) = merged.as_object_mut() {
        let status = if name == "approval" { new.get("status") } else { old.get("status") };
        metadata::set(map, "status", status.cloned());
        if name == "approval" {
            metadata::set(map, "metadata", new.get("metadata").cloned());
        }
    }
    merged
}

fn is_namespace(def: &ResourceDef) -> bool {
    def.group.is_empty() && def.plural == "namespaces"
}

/// Whether a namespace's own finalizers are gone; true for every other kind.
pub(crate) fn namespace_finalized(def: &ResourceDef, object: &Value) -> bool {
    !is_namespace(def)
        || object.pointer("/spec/finalizers").and_then(Value::as_array).is_none_or(Vec::is_empty)
}

/// Marks a namespace that is to go as terminating; whether its own finalizers keep it.
pub(crate) fn namespace_terminating(def: &ResourceDef, object: &mut Value) -> bool {
    if namespace_finalized(def, object) {
        return false;
    }
    if meta::deletion_timestamp(object).is_none()
        && let Some(map) = object.as_object_mut()
    {
        meta::child_mut(map, "status").insert("phase".to_owned(), "Terminating".into());
    }
    true
}

/// The answer of subresources that have nothing to say.
fn success() -> Object {
    Object::other(
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    )
}

/// Checks the UID and version that a request names, if any.
fn check_preconditions(
    store: &Store,
    target: &Target,
    object: &Value,
    uid: &str,
    version: &str,
) -> ApiResult<()> {
    let key = store.key(target.namespace.as_deref(), &target.name);
    let refuse = |what: &str, wanted: &str, found: &str| {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
        );
        Err(ApiError::conflict(&store.resource(), &target.name, &why))
    };
    if !uid.is_empty() && uid != meta::uid(object) {
        return refuse("UID", uid, meta::uid(object));
    }
    if !version.is_empty() && version != meta::resource_version(object) {
        return refuse("ResourceVersion", version, meta::resource_version(object));
    }
    Ok(())
}
