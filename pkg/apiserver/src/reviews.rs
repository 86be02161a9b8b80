//! Resources that are answered and never stored: token and access reviews.

use std::sync::Arc;

use copepod_api::{
    ApiError, ApiResult, FieldError, FieldErrors, FieldPath, GroupVersionKind, GroupVersionResource,
};
use copepod_registry::FieldValidation as Asked;
use copepod_schema::decode::{self, FieldValidation};
use copepod_schema::managed::{self, FieldSet};
use http::{Response, header};
use serde_json::{Map, Value, json};

use crate::authz::Check;
use crate::body::Body;
use crate::negotiate::{self, Encoding, Transforms};
use crate::request::WriteOptions;
use crate::respond;
use crate::server::{Call, Server};
use crate::user::UserInfo;

mod rules;

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// Resource and kind of each review.
const ROWS: &[(&str, &str, &str)] = &[
    (AUTHENTICATION, "tokenreviews", "TokenReview"),
    (AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview"),
    (AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview"),
    (AUTHORIZATION, "localsubjectaccessreviews", "LocalSubjectAccessReview"),
    (AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    (AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
];

fn kind_of(gvr: &GroupVersionResource) -> Option<GroupVersionKind> {
    let row = ROWS.iter().find(|(group, resource, _)| *group == gvr.group && *resource == gvr.resource);
    row.filter(|_| gvr.version == "v1").map(|(group, _, kind)| GroupVersionKind::new(group, "v1", kind))
}

/// Whether a resource is a review.
pub(crate) fn serves(gvr: &GroupVersionResource) -> bool {
    kind_of(gvr).is_some()
}

/// Reads a body that must be of this kind; unknown fields are warned of or refused as the client asks.
async fn decode(call: &mut Call, gvk: &GroupVersionKind) -> ApiResult<Value> {
    let encoding = negotiate::body_encoding(call.header(header::CONTENT_TYPE))?;
    let options = WriteOptions::read(&call.query, "CreateOptions")?;
    let validation = match options.field_validation {
        Asked::Ignore => FieldValidation::Ignore,
        Asked::Warn => FieldValidation::Warn,
        Asked::Strict => FieldValidation::Strict,
    };
    let body = call.read_body().await?;
    let json: bytes::Bytes = match encoding {
        Encoding::Json => body,
        Encoding::Protobuf => crate::protobuf::to_json(&body)?,
        Encoding::Yaml => {
            let value: Value =
                serde_saphyr::from_slice(&body).map_err(|e| ApiError::bad_request(e.to_string()))?;
            value.to_string().into()
        }
    };
    let schema = copepod_schema::builtin()
        .kind(&gvk.group, &gvk.version, &gvk.kind)
        .ok_or_else(|| ApiError::internal(format!("no schema of {gvk}")))?;
    let decoded = decode::decode(&json, schema, validation).map_err(|e| e.to_api_error(gvk))?;
    for warning in decoded.warnings {
        call.warnings.add(warning);
    }
    let mut object = decoded.object;
    for (field, wanted) in [("kind", gvk.kind.clone()), ("apiVersion", gvk.api_version())] {
        let given = object.get(field).and_then(Value::as_str).unwrap_or_default();
        if !given.is_empty() && given != wanted {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({given}) does not match the expected API version ({wanted})"
            )));
        }
        object[field] = json!(wanted);
    }
    Ok(object)
}

/// Writes an object of a built-in kind in upstream's field order.
fn answer(call: &Call, gvk: &GroupVersionKind, object: &Value) -> ApiResult<Response<Body>> {
    let pretty = negotiate::is_pretty(&call.query, call.header(header::USER_AGENT));
    let accepted = negotiate::negotiate(call.header(header::ACCEPT), Transforms::None, pretty)?;
    let schema = copepod_schema::builtin().kind(&gvk.group, &gvk.version, &gvk.kind);
    let bytes =
        schema.map_or_else(|| object.to_string().into_bytes(), |s| copepod_schema::encode::encode(object, s));
    Ok(respond::object(201, accepted, bytes.into()))
}

impl Server {
    /// POST of a review.
    pub(crate) async fn review(self: Arc<Self>, mut call: Call) -> ApiResult<Response<Body>> {
        let info = &call.info;
        let gvr = GroupVersionResource::new(&info.group, &info.version, &info.resource);
        let gvk = kind_of(&gvr).ok_or_else(ApiError::no_such_resource)?;
        if !info.name.is_empty() {
            return self.no_resource(Some(&info.group));
        }
        if info.verb != "create" {
            return Err(crate::handlers::not_allowed());
        }
        // Refused before anything is done, as a Table of a review is.
        negotiate::negotiate(call.header(header::ACCEPT), Transforms::None, false)?;
        let mut object = decode(&mut call, &gvk).await?;
        if !matches!(gvk.kind.as_str(), "SelfSubjectReview" | "SelfSubjectRulesReview") {
            own(&call, &gvk, &mut object)?;
        }
        match gvk.kind.as_str() {
            "TokenReview" => self.token_review(&mut object).await?,
            "SelfSubjectReview" => {
                let now = copepod_sys::clock::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                object["metadata"] = json!({"creationTimestamp": now});
                object["status"] = json!({"userInfo": call.user});
            }
            "SelfSubjectRulesReview" => self.rules_review(&call, &mut object)?,
            kind => self.access_review(&call, kind, &gvk, &mut object).await?,
        }
        answer(&call, &gvk, &object)
    }

    async fn token_review(&self, object: &mut Value) -> ApiResult<()> {
        let token = object["spec"]["token"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
        }
        let audiences: Vec<String> = texts(&object["spec"]["audiences"]);
        object["status"] = match self.authn.token_for(&token, &audiences).await {
            Ok((user, audiences)) => json!({"authenticated": true, "user": user, "audiences": audiences}),
            Err(error) => json!({"user": {}, "error": error_text(&error.to_string())}),
        };
        Ok(())
    }

    async fn access_review(
        &self,
        call: &Call,
        kind: &str,
        gvk: &GroupVersionKind,
        object: &mut Value,
    ) -> ApiResult<()> {
        let own = kind == "SelfSubjectAccessReview";
        let errors = check_spec(
            object,
            own,
            (kind == "LocalSubjectAccessReview").then_some(call.info.namespace.as_str()),
        );
        if !errors.is_empty() {
            return Err(ApiError::invalid(&GroupVersionKind::new(&gvk.group, "", ""), "", &errors));
        }
        let spec = &object["spec"];
        let user = if own { call.user.clone() } else { user_of(spec) };
        let decision = self.authz.decide(&check_of(spec, &user)).await;
        let mut status = Map::new();
        status.insert("allowed".to_owned(), json!(decision.allowed));
        if !decision.reason.is_empty() {
            status.insert("reason".to_owned(), json!(decision.reason));
        }
        object["status"] = Value::Object(status);
        Ok(())
    }
}

/// What no authenticator takes for a token of its own is just not valid.
fn error_text(error: &str) -> String {
    match error {
        crate::authn::NO_TOKEN => "invalid bearer token".to_owned(),
        other => format!("[invalid bearer token, {other}]"),
    }
}

/// Records who sent what, as for anything that is created.
fn own(call: &Call, gvk: &GroupVersionKind, object: &mut Value) -> ApiResult<()> {
    let options = WriteOptions::read(&call.query, "CreateOptions")?;
    let schema = copepod_schema::builtin().kind(&gvk.group, &gvk.version, &gvk.kind);
    let Some(schema) = schema else { return Ok(()) };
    let manager = copepod_registry::field_manager(&options.field_manager, call.header(header::USER_AGENT));
    let now = copepod_sys::clock::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let reset = FieldSet::of(&[&["status"]]);
    managed::update(
        None,
        object,
        &managed::Request {
            schema,
            gvk,
            manager: &manager,
            subresource: "",
            reset: &reset,
            versions: &managed::OneVersion,
            now: &now,
        },
    );
    Ok(())
}

/// Attributes of a path as upstream's internal form shows them.
fn path_attributes(spec: &Value) -> String {
    let given = &spec["nonResourceAttributes"];
    if given.is_null() {
        return "null".to_owned();
    }
    let text = |field: &str| Value::from(given[field].as_str().unwrap_or_default());
    format!(r#"{{"Path":{},"Verb":{}}}"#, text("path"), text("verb"))
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn user_of(spec: &Value) -> UserInfo {
    let extra = spec["extra"].as_object().into_iter().flatten();
    UserInfo {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: texts(&spec["groups"]),
        extra: extra.map(|(k, v)| (k.clone(), texts(v))).collect(),
    }
}

fn check_of<'a>(spec: &'a Value, user: &'a UserInfo) -> Check<'a> {
    fn text<'v>(map: &'v Value, key: &str) -> &'v str {
        map.get(key).and_then(Value::as_str).unwrap_or_default()
    }
    match spec.get("resourceAttributes").filter(|a| !a.is_null()) {
        Some(attributes) => Check {
            user,
            verb: text(attributes, "verb"),
            group: text(attributes, "group"),
            resource: text(attributes, "resource"),
            subresource: text(attributes, "subresource"),
            namespace: text(attributes, "namespace"),
            name: text(attributes, "name"),
            field_selector: attributes["fieldSelector"]["rawSelector"].as_str().unwrap_or_default(),
            is_resource: true,
            ..Check::default()
        },
        None => {
            let attributes = &spec["nonResourceAttributes"];
            Check { user, verb: text(attributes, "verb"), path: text(attributes, "path"), ..Check::default() }
        }
    }
}

fn check_spec(object: &Value, own: bool, local_namespace: Option<&str>) -> FieldErrors {
    let spec = &object["spec"];
    let path = FieldPath::new("spec");
    let has = |field: &str| spec.get(field).is_some_and(|v| !v.is_null());
    let mut errors = FieldErrors::new();
    if has("resourceAttributes") == has("nonResourceAttributes") {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(FieldError::invalid(&path, Value::Null, detail).showing(path_attributes(spec)));
    }
    if !own && spec["user"].as_str().unwrap_or_default().is_empty() && texts(&spec["groups"]).is_empty() {
        errors.push(FieldError::invalid(
            &path.child("user"),
            "",
            "at least one of user or group must be specified",
        ));
    }
    let Some(namespace) = local_namespace else { return errors };
    let attributes = &spec["resourceAttributes"];
    if has("resourceAttributes") && attributes["namespace"].as_str().unwrap_or_default() != namespace {
        let path = path.child("resourceAttributes").child("namespace");
        errors.push(FieldError::invalid(
            &path,
            attributes["namespace"].as_str().unwrap_or_default(),
            "must match metadata.namespace",
        ));
    }
    if has("nonResourceAttributes") {
        let path = path.child("nonResourceAttributes");
        let error = FieldError::invalid(&path, Value::Null, "disallowed on this kind of request");
        errors.push(error.showing(path_attributes(spec)));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_are_checked() {
        let good = json!({"spec": {"user": "a", "resourceAttributes": {"verb": "get", "resource": "pods"}}});
        assert!(check_spec(&good, false, None).is_empty());
        assert_eq!(check_spec(&good, false, Some("x")).len(), 1);
        assert_eq!(check_spec(&json!({"spec": {}}), false, None).len(), 2);
        assert_eq!(check_spec(&json!({"spec": {}}), true, None).len(), 1);
        let user = UserInfo::default();
        assert!(check_of(&good["spec"], &user).is_resource);
    }
}
