//! `serviceaccounts/token`: the request is checked here, the token is signed by the API server.

use copepod_api::{
    ApiError, ApiResult, FieldError, FieldErrors, FieldPath, GroupResource, GroupVersionKind, meta,
};
use serde_json::Value;

use crate::{
    codec,
    object::Object,
    ownership,
    request::{Body, RequestContext, Target},
    store::Store,
};

/// Shortest life of a token, in seconds.
const SHORTEST: i64 = 600;
/// Longest life of a token, in seconds.
const LONGEST: i64 = 1 << 32;

pub(super) async fn create(
    store: &Store,
    cx: &RequestContext,
    target: &Target,
    body: &Body,
) -> ApiResult<Object> {
    let gvk = GroupVersionKind::new("authentication.k8s.io", "v1", "TokenRequest");
    let schema = copepod_schema::builtin().kind(&gvk.group, &gvk.version, &gvk.kind);
    let schema = schema.ok_or_else(|| ApiError::internal("no schema of TokenRequest"))?;
    let mut request = codec::decode_as(cx, body, &gvk, schema)?;
    codec::default(&mut request, schema);
    if let Some(map) = request.as_object_mut() {
        let spec = meta::child_mut(map, "spec");
        if spec.get("expirationSeconds").is_none_or(Value::is_null) {
            spec.insert("expirationSeconds".to_owned(), 3600.into());
        }
    }
    let issuer =
        store.core.tokens.as_ref().ok_or_else(|| ApiError::internal("no token issuer is configured"))?;
    let account = store.current(target.namespace.as_deref(), &target.name).await?;
    let account = account.ok_or_else(|| store.not_found(&target.name))?;
    let account = store.row.load(&account)?;
    ownership::update_request(cx, &gvk, schema, &mut request, "token");
    name_account(&mut request, target, &account)?;
    validate(&request, &gvk)?;
    store.admit_post(cx, target, &gvk, &mut request).await?;
    let bound = bound_object(store, target, &request).await?;
    issuer.issue(cx, &account, request, bound.as_ref()).await.map(Object::other)
}

/// The request's own metadata must agree with the account's.
fn name_account(request: &mut Value, target: &Target, account: &Value) -> ApiResult<()> {
    let (name, namespace) = (meta::name(request).to_owned(), meta::namespace(request).to_owned());
    if !name.is_empty() && name != target.name {
        let errors: FieldErrors = vec![FieldError::invalid(
            &FieldPath::new("metadata").child("name"),
            name.as_str(),
            format!("must match the service account name if specified ({})", target.name),
        )];
        return Err(ApiError::invalid(&GroupVersionKind::new("", "v1", "TokenRequest"), &name, &errors));
    }
    if !namespace.is_empty() && Some(namespace.as_str()) != target.namespace.as_deref() {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let metadata = meta::metadata_mut(request);
    metadata.insert("name".to_owned(), target.name.clone().into());
    metadata.insert("namespace".to_owned(), meta::namespace(account).into());
    Ok(())
}

fn validate(request: &Value, gvk: &GroupVersionKind) -> ApiResult<()> {
    let seconds = request.pointer("/spec/expirationSeconds").and_then(Value::as_i64).unwrap_or(0);
    let field = FieldPath::new("spec").child("expirationSeconds");
    let mut errors = FieldErrors::new();
    if seconds < SHORTEST {
        errors.push(FieldError::invalid(&field, seconds, "may not specify a duration less than 10 minutes"));
    }
    if seconds > LONGEST {
        errors.push(FieldError::invalid(
            &field,
            seconds,
            "may not specify a duration larger than 2^32 seconds",
        ));
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid(gvk, "", &errors)) }
}

/// The object the token is bound to; it must exist with the UID given.
async fn bound_object(store: &Store, target: &Target, request: &Value) -> ApiResult<Option<Value>> {
    let Some(reference) = request.pointer("/spec/boundObjectRef").filter(|r| !r.is_null()) else {
        return Ok(None);
    };
    let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    let (kind, name, uid) = (text("kind"), text("name"), text("uid"));
    let resource = match (kind, text("apiVersion")) {
        ("Pod", "v1") => "pods",
        ("Secret", "v1") => "secrets",
        ("Node", "v1") => "nodes",
        (kind, version) => {
            let why = format!("cannot bind token to object of type {version}, Kind={kind}");
            return Err(ApiError::bad_request(why));
        }
    };
    let sibling = store.core.sibling("", "v1", resource)?;
    let found = sibling.current(target.namespace.as_deref(), name).await?;
    let found = found.ok_or_else(|| ApiError::not_found(&GroupResource::new("", resource), name))?;
    let object = sibling.row.load(&found)?;
    if !uid.is_empty() && uid != meta::uid(&object) {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. \
             The object might have been deleted and then recreated"
        );
        return Err(ApiError::conflict(&GroupResource::new("", kind), name, &why));
    }
    if kind == "Pod" {
        let account = object.pointer("/spec/serviceAccountName").and_then(Value::as_str).unwrap_or_default();
        if account != target.name {
            let why = format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                target.name
            );
            return Err(ApiError::bad_request(why));
        }
    }
    Ok(Some(object))
}
