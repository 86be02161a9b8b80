//! The `Status` object and the errors that carry one (`k8s.io/apimachinery/pkg/api/errors`).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::field::{FieldErrors, quote};
use crate::gvk::{GroupResource, GroupVersionKind};

/// The result of an API operation.
pub type ApiResult<T> = Result<T, ApiError>;

/// Machine-readable reasons (`metav1.StatusReason`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are upstream's reasons, word for word")]
pub enum Reason {
    Unauthorized,
    Forbidden,
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    ServerTimeout,
    StoreReadError,
    Timeout,
    TooManyRequests,
    BadRequest,
    MethodNotAllowed,
    NotAcceptable,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    InternalError,
    Expired,
    ServiceUnavailable,
}

impl Reason {
    /// The reason as it travels and the HTTP code that goes with it.
    #[must_use]
    pub fn parts(self) -> (&'static str, u16) {
        match self {
            Self::Unauthorized => ("Unauthorized", 401),
            Self::Forbidden => ("Forbidden", 403),
            Self::NotFound => ("NotFound", 404),
            Self::AlreadyExists => ("AlreadyExists", 409),
            Self::Conflict => ("Conflict", 409),
            Self::Gone => ("Gone", 410),
            Self::Invalid => ("Invalid", 422),
            Self::ServerTimeout => ("ServerTimeout", 500),
            Self::StoreReadError => ("StorageReadError", 500),
            Self::Timeout => ("Timeout", 504),
            Self::TooManyRequests => ("TooManyRequests", 429),
            Self::BadRequest => ("BadRequest", 400),
            Self::MethodNotAllowed => ("MethodNotAllowed", 405),
            Self::NotAcceptable => ("NotAcceptable", 406),
            Self::RequestEntityTooLarge => ("RequestEntityTooLarge", 413),
            Self::UnsupportedMediaType => ("UnsupportedMediaType", 415),
            Self::InternalError => ("InternalError", 500),
            Self::Expired => ("Expired", 410),
            Self::ServiceUnavailable => ("ServiceUnavailable", 503),
        }
    }
}

/// One cause in a status' details.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct StatusCause {
    /// The machine-readable cause, such as `FieldValueInvalid`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The field, such as `spec.replicas`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// What a status is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusDetails {
    /// The object's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The group of `kind`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// A plural resource, or a kind for `Invalid`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The object's UID.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Single errors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// After how many seconds to try again; 0 is unset.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: i32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(n: &i32) -> bool {
    *n == 0
}

/// `metadata` of a Status: a list's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusMeta {
    /// Set on 410 answers to a chunked list that can go on inconsistently.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_: String,
}

/// `v1.Status`, the body of every error and of some successes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    /// Always `Status`.
    pub kind: String,
    /// Always `v1`.
    pub api_version: String,
    /// List metadata.
    pub metadata: StatusMeta,
    /// `Success` or `Failure`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// For programs; see [`Reason`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
    /// The HTTP code; 0 is unset.
    #[serde(skip_serializing_if = "is_zero")]
    pub code: i32,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            kind: "Status".to_owned(),
            api_version: "v1".to_owned(),
            metadata: StatusMeta::default(),
            status: String::new(),
            message: String::new(),
            reason: String::new(),
            details: None,
            code: 0,
        }
    }
}

impl Status {
    /// A success, as delete answers with.
    #[must_use]
    pub fn success(details: Option<StatusDetails>) -> Self {
        Self { status: "Success".to_owned(), details, ..Self::default() }
    }
}

/// An error with the `Status` a client sees. Boxed: errors are rare, results are everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError(Box<Status>);

impl ApiError {
    /// An error from a status received or built elsewhere.
    #[must_use]
    pub fn from_status(status: Status) -> Self {
        Self(Box::new(status))
    }

    /// An error with a reason, a message and no details.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let (text, code) = reason.parts();
        Self::from_status(Status {
            status: "Failure".to_owned(),
            message: message.into(),
            reason: text.to_owned(),
            code: i32::from(code),
            ..Status::default()
        })
    }

    fn about(reason: Reason, resource: &GroupResource, name: &str, message: String) -> Self {
        Self::new(reason, message).with_details(StatusDetails {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            ..StatusDetails::default()
        })
    }

    /// The same error with `details`.
    #[must_use]
    pub fn with_details(mut self, details: StatusDetails) -> Self {
        self.0.details = Some(details);
        self
    }

    /// The same error asking the client to wait.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: i32) -> Self {
        self.0.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// 404: `pods "x" not found`.
    #[must_use]
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::about(Reason::NotFound, resource, name, format!("{resource} {} not found", quote(name)))
    }

    /// 404 for a path that no resource serves.
    #[must_use]
    pub fn no_such_resource() -> Self {
        Self::new(Reason::NotFound, "the server could not find the requested resource")
            .with_details(StatusDetails::default())
    }

    /// 409: `pods "x" already exists`.
    #[must_use]
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::about(
            Reason::AlreadyExists,
            resource,
            name,
            format!("{resource} {} already exists", quote(name)),
        )
    }

    /// 409: `Operation cannot be fulfilled on pods "x": …`.
    #[must_use]
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quote(name));
        Self::about(Reason::Conflict, resource, name, message)
    }

    /// 409 of a lost update.
    #[must_use]
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 403: `pods "x" is forbidden: …`; without a resource `forbidden: …`, without a name `pods is forbidden: …`.
    #[must_use]
    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = if resource.resource.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", quote(name))
        };
        Self::about(Reason::Forbidden, resource, name, message)
    }

    /// 422: `Deployment.apps "x" is invalid: …` with a cause for each error.
    #[must_use]
    pub fn invalid(gvk: &GroupVersionKind, name: &str, errors: &FieldErrors) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for text in errors.iter().map(ToString::to_string) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let what = if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) };
        let causes = errors
            .iter()
            .map(|e| StatusCause {
                reason: e.kind.reason().to_owned(),
                message: e.body(),
                field: e.field.to_string(),
            })
            .collect();
        Self::new(Reason::Invalid, format!("{} {} is invalid: {what}", gvk.qualified_kind(), quote(name)))
            .with_details(StatusDetails {
                name: name.to_owned(),
                group: gvk.group.clone(),
                kind: gvk.kind.clone(),
                causes,
                ..StatusDetails::default()
            })
    }

    /// 500 with the bare text, as upstream answers for errors that are no statuses.
    #[must_use]
    pub fn unreasoned(message: &str) -> Self {
        Self::from_status(Status {
            status: "Failure".to_owned(),
            message: message.to_owned(),
            code: 500,
            ..Status::default()
        })
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Reason::BadRequest, message)
    }

    /// 401.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(Reason::Unauthorized, "Unauthorized")
    }

    /// 405: `patch is not supported on resources of kind "x"`.
    #[must_use]
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let message =
            format!("{action} is not supported on resources of kind {}", quote(&resource.to_string()));
        Self::about(Reason::MethodNotAllowed, resource, "", message)
    }

    /// 410 of a resource version that is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(Reason::Expired, message)
    }

    /// 500: `Internal error occurred: …`.
    pub fn internal(why: impl fmt::Display) -> Self {
        let why = why.to_string();
        Self::new(Reason::InternalError, format!("Internal error occurred: {why}")).with_details(
            StatusDetails {
                causes: vec![StatusCause { message: why, ..StatusCause::default() }],
                ..StatusDetails::default()
            },
        )
    }

    /// 429.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: i32) -> Self {
        Self::new(Reason::TooManyRequests, message).with_retry_after(retry_after_seconds)
    }

    /// 504: `Timeout: …`.
    #[must_use]
    pub fn timeout(message: &str, retry_after_seconds: i32) -> Self {
        Self::new(Reason::Timeout, format!("Timeout: {message}"))
            .with_details(StatusDetails { retry_after_seconds, ..StatusDetails::default() })
    }

    /// The status a client sees.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.0
    }

    /// The status, to be changed.
    pub fn status_mut(&mut self) -> &mut Status {
        &mut self.0
    }

    /// The HTTP code; 500 when the status has none.
    #[must_use]
    pub fn code(&self) -> u16 {
        u16::try_from(self.0.code).ok().filter(|c| (100..600).contains(c)).unwrap_or(500)
    }

    /// Whether the status has this reason.
    #[must_use]
    pub fn is(&self, reason: Reason) -> bool {
        self.0.reason == reason.parts().0
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{FieldError, FieldPath};

    #[test]
    fn invalid_lists_every_cause() {
        let gvk = GroupVersionKind::new("apps", "v1", "Deployment");
        let path = FieldPath::new("spec").child("replicas");
        let one = vec![FieldError::invalid(&path, -1, "must be greater than or equal to 0")];
        let error = ApiError::invalid(&gvk, "web", &one);
        assert_eq!(
            error.to_string(),
            r#"Deployment.apps "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"#
        );
        assert_eq!(error.code(), 422);
        let two = [one, vec![FieldError::required(&FieldPath::new("spec"), "")]].concat();
        let error = ApiError::invalid(&gvk, "web", &two);
        assert!(error.to_string().ends_with(", spec: Required value]"), "{error}");
        assert_eq!(error.status().details.as_ref().map(|d| d.causes.len()), Some(2));
    }
}
