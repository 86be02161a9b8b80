//! AdmissionReview: the question, and what is made of the answer.

use base64::Engine as _;
use copepod_api::field::quote;
use copepod_api::{ApiError, GroupVersionKind, Status};
use copepod_registry::Attributes;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Hook, Invocation, Views};

/// What a webhook answered.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Whether the request may go on.
    pub allowed: bool,
    /// A JSON patch of the object; empty for none.
    pub patch: Vec<u8>,
    /// Why not, when it may not.
    pub result: Option<Status>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// The body of a call and the UID that the answer must name.
pub(super) fn request(
    hook: &Hook,
    attributes: &Attributes<'_>,
    invocation: &Invocation,
    request_kind: &GroupVersionKind,
    views: &Views,
) -> Result<(String, Value), &'static str> {
    if hook.version().is_empty() {
        return Err("webhook does not accept known AdmissionReview versions (v1, v1beta1)");
    }
    let uid = uuid::Uuid::new_v4().to_string();
    let mut request = facts(attributes, invocation, request_kind);
    request.insert("uid".to_owned(), uid.clone().into());
    request.insert("object".to_owned(), views.object.clone());
    request.insert("oldObject".to_owned(), views.old.clone());
    request.insert("options".to_owned(), options(attributes));
    let version = format!("admission.k8s.io/{}", hook.version());
    Ok((uid, json!({"kind": "AdmissionReview", "apiVersion": version, "request": request})))
}

/// The options of the request; null where it has none.
pub(super) fn options(attributes: &Attributes<'_>) -> Value {
    let options = Some(attributes.options).filter(|o| o.as_object().is_some_and(|o| !o.is_empty()));
    options.cloned().unwrap_or_default()
}

/// An AdmissionRequest without its objects.
pub(super) fn facts(
    attributes: &Attributes<'_>,
    invocation: &Invocation,
    request_kind: &GroupVersionKind,
) -> Map<String, Value> {
    let kind = |k: &GroupVersionKind| json!({"group": k.group, "version": k.version, "kind": k.kind});
    let resource = |r: &copepod_api::GroupVersionResource| json!({"group": r.group, "version": r.version, "resource": r.resource});
    let mut request = Map::new();
    let mut set = |field: &str, value: Value| drop(request.insert(field.to_owned(), value));
    set("kind", kind(&invocation.kind));
    set("resource", resource(&invocation.resource));
    set("requestKind", kind(request_kind));
    set("requestResource", resource(attributes.resource));
    // A request about a Namespace itself names it as its place, too.
    let own = attributes.resource.group.is_empty() && attributes.resource.resource == "namespaces";
    for (field, text) in [
        ("subResource", attributes.subresource),
        ("requestSubResource", attributes.subresource),
        ("name", attributes.name),
        ("namespace", if own { attributes.name } else { attributes.namespace }),
    ] {
        if !text.is_empty() {
            set(field, text.into());
        }
    }
    set("operation", attributes.operation.as_str().into());
    set("userInfo", json!(attributes.user));
    set("dryRun", attributes.dry_run.into());
    request
}

/// Reads an answer and checks that it is one to this question.
pub(super) fn read(version: &str, uid: &str, mutating: bool, review: &Value) -> Result<Answer, String> {
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let response = review.get("response").filter(|r| !r.is_null()).ok_or("webhook response was absent")?;
    let patch = text(response, "patch").unwrap_or_default();
    let patch = base64::engine::general_purpose::STANDARD.decode(patch).map_err(|e| e.to_string())?;
    if version == "v1" {
        check(review, response, uid)?;
        check_patch(response, &patch, mutating)?;
    }
    let result = response.get("status").filter(|s| !s.is_null());
    let result = result.map(Status::deserialize).transpose().map_err(|e| e.to_string())?;
    let warnings = response.get("warnings").and_then(Value::as_array).into_iter().flatten();
    Ok(Answer {
        allowed: response.get("allowed").and_then(Value::as_bool).unwrap_or(false),
        patch: if mutating { patch } else { Vec::new() },
        result,
        warnings: warnings.filter_map(Value::as_str).map(str::to_owned).collect(),
    })
}

fn check(review: &Value, response: &Value, uid: &str) -> Result<(), String> {
    let text =
        |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let got = text(response, "uid");
    if got != uid {
        return Err(format!("expected response.uid={}, got {}", quote(uid), quote(&got)));
    }
    let (version, kind) = (text(review, "apiVersion"), text(review, "kind"));
    if version != "admission.k8s.io/v1" || kind != "AdmissionReview" {
        let version = if version.is_empty() { "/".to_owned() } else { version };
        return Err(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {version}, Kind={kind}"
        ));
    }
    Ok(())
}

fn check_patch(response: &Value, patch: &[u8], mutating: bool) -> Result<(), String> {
    let kind = response.get("patchType").and_then(Value::as_str);
    match (mutating, patch.is_empty(), kind) {
        (false, false, _) => Err("validating webhook may not return response.patch".to_owned()),
        (false, _, Some(_)) => Err("validating webhook may not return response.patchType".to_owned()),
        (true, false, None) => Err("webhook returned response.patch but not response.patchType".to_owned()),
        (true, true, Some(_)) => Err("webhook returned response.patchType but not response.patch".to_owned()),
        (true, _, Some("")) => Err("webhook returned invalid response.patchType of \"\"".to_owned()),
        (true, _, Some(other)) if other != "JSONPatch" => {
            Err(format!("unsupported patch type {}", quote(other)))
        }
        _ => Ok(()),
    }
}

/// The error a client sees when a webhook says no.
pub(super) fn refusal(webhook: &str, result: Option<Status>) -> ApiError {
    let denied = format!("admission webhook {} denied the request", quote(webhook));
    let mut status = result.unwrap_or_default();
    if status.code < 400 {
        status.code = 400;
    }
    if matches!(status.status.as_str(), "" | "Success") {
        "Failure".clone_into(&mut status.status);
    }
    status.message = match (status.message.as_str(), status.reason.as_str()) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    ApiError::from_status(status)
}
