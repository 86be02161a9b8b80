//! Certificate signing requests.

use base64::{Engine, engine::general_purpose::STANDARD};
use copepod_api::names;
use serde_json::{Value, json};

use std::collections::HashSet;

use crate::hooks::HookContext;
use crate::kinds::at::At;
use crate::kinds::checks::text;
use crate::kinds::defaults::{Object, map_mut};
use crate::kinds::kind::Kind;

/// Certificate signing requests.
pub(crate) static KIND: Kind = Kind {
    prepare_create,
    prepare_update,
    prepare_status,
    validate,
    validate_update: Some(|new, old| {
        validate(new);
        kept(new, old);
    }),
    validate_status: |new, old| {
        validate(new);
        kept(new, old);
    },
    name: names::path_segment,
    ..Kind::PLAIN
};

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
    if cx.subresource == Some("approval") {
        return prepare_update(cx, new, old);
    }
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
    for condition in new.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
    {
        let same =
            |c: &&Value| c.get("type") == condition.get("type") && c.get("status") == condition.get("status");
        let since = was.iter().find(same).and_then(|c| c.get("lastTransitionTime")).cloned();
        let Some(condition) = condition.as_object_mut() else { continue };
        crate::kinds::defaults::fill(condition, "lastUpdateTime", now.clone());
        crate::kinds::defaults::fill(
            condition,
            "lastTransitionTime",
            since.unwrap_or_else(|| now.clone().into()),
        );
    }
}

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

fn validate(request: &At<'_>) {
    let spec = request.get("spec");
    let pem = STANDARD.decode(spec.get("request").str()).unwrap_or_default();
    let pem = String::from_utf8_lossy(&pem);
    let begin = "-----BEGIN ";
    let typed = |kind: &str| pem.contains(&format!("{begin}{kind}-----"));
    if !typed("CERTIFICATE REQUEST") && !typed("NEW CERTIFICATE REQUEST") {
        let shown = spec.get("request").str();
        spec.get("request").invalid_as(shown, "PEM block type must be CERTIFICATE REQUEST");
    }
    let usages = spec.get("usages");
    usages.need();
    let mut seen = HashSet::new();
    for usage in usages.items() {
        usage.one_of(USAGES);
        if !seen.insert(usage.str()) {
            usage.duplicate();
        }
    }
    let signer = spec.get("signerName");
    if signer.str() == "kubernetes.io/legacy-unknown" {
        signer.invalid("the legacy signerName is not allowed via this API version");
    } else {
        text::signer_name(&signer);
    }
    let expiration = spec.get("expirationSeconds");
    if expiration.int().is_some_and(|n| n < 600) {
        expiration.invalid("may not specify a duration less than 600 seconds (10 minutes)");
    }
    check_conditions(&request.at("status.conditions"));
}

fn check_conditions(list: &At<'_>) {
    let mut seen = HashSet::new();
    for at in list.items() {
        let (kind, status) = (at.get("type"), at.get("status"));
        kind.need();
        let allowed: &[&str] = match kind.str() {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        status.need_one_of(allowed);
        let other = if kind.str() == "Approved" { "Denied" } else { "Approved" };
        if matches!(kind.str(), "Approved" | "Denied") && seen.contains(other) {
            list.invalid_as(kind.str(), "Approved and Denied conditions are mutually exclusive");
        }
        if !seen.insert(kind.str()) {
            kind.duplicate();
        }
    }
}

/// A decision is never taken back, and a certificate never replaced.
fn kept(new: &At<'_>, old: &At<'_>) {
    let has =
        |request: &At<'_>, kind: &str| request.at("status.conditions").items().any(|c| c.is("type", kind));
    for kind in ["Approved", "Denied", "Failed"] {
        if has(old, kind) && !has(new, kind) {
            new.at("status.conditions")
                .forbidden(format!("updates may not remove a condition of type {kind:?}"));
        }
    }
    let (certificate, had) = (new.at("status.certificate"), old.at("status.certificate"));
    if !had.is_empty() && certificate.str() != had.str() {
        certificate.forbidden("updates may not modify existing certificate content");
    }
}
