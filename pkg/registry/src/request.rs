//! What every request carries into the registry: who, when, and how.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

pub use copepod_schema::decode::FieldValidation;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::admission::AdmissionChain;

/// The authenticated user.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    /// The name, such as `system:node:edge-1`.
    #[serde(rename = "username", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The UID; empty when the authenticator gives none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// More from the authenticator, such as a token's pod name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Warnings for the client (`Warning` headers), collected from the whole pipeline.
#[derive(Debug, Clone, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Adds one, unless it is there already.
    pub fn add(&self, text: impl Into<String>) {
        let text = text.into();
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !list.contains(&text) {
            list.push(text);
        }
    }

    /// All of them, in the order found.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The context of one request.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// Who asks.
    pub user: UserInfo,
    /// When the request arrived.
    pub now: Timestamp,
    /// `fieldManager`, or the user agent up to its first slash (see [`field_manager`]).
    pub field_manager: String,
    /// `dryRun=All`: run everything, store nothing.
    pub dry_run: bool,
    /// `fieldValidation`.
    pub field_validation: FieldValidation,
    /// The admission chain to run for writes.
    pub admission: AdmissionChain,
    /// Warnings for the client.
    pub warnings: Warnings,
}

impl RequestContext {
    /// A context for the server's own writes: no admission, `system:apiserver` as user and manager.
    #[must_use]
    pub fn internal() -> Self {
        Self {
            user: UserInfo {
                name: "system:apiserver".to_owned(),
                groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
                ..UserInfo::default()
            },
            now: copepod_sys::clock::now(),
            field_manager: "kube-apiserver".to_owned(),
            dry_run: false,
            field_validation: FieldValidation::Ignore,
            admission: AdmissionChain::default(),
            warnings: Warnings::default(),
        }
    }
}

/// The manager of a write's fields: the parameter, or the user agent up to its first slash, at most 128 bytes.
#[must_use]
pub fn field_manager(parameter: &str, user_agent: &str) -> String {
    let name =
        if parameter.is_empty() { user_agent.split('/').next().unwrap_or_default() } else { parameter };
    let printable: String = name.chars().filter(|c| !c.is_control()).collect();
    let mut end = printable.len().min(128);
    while !printable.is_char_boundary(end) {
        end -= 1;
    }
    printable.get(..end).unwrap_or_default().to_owned()
}

/// Which object a write is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Target {
    /// The namespace in the path; `None` for cluster-wide resources.
    pub namespace: Option<String>,
    /// The name in the path; empty for a POST to the collection.
    pub name: String,
    /// The subresource in the path.
    pub subresource: Option<String>,
}

impl Target {
    /// An object by its name.
    #[must_use]
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Self { namespace: namespace.map(str::to_owned), name: name.to_owned(), subresource: None }
    }

    /// The same object's subresource.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "a path is not a number; nobody subtracts from it")]
    pub fn sub(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }
}

/// A request body as text. Protobuf bodies are turned into JSON before they come here.
#[derive(Debug, Clone)]
pub enum Body {
    /// JSON as the client sent it; strict checking sees duplicate keys.
    Json(bytes::Bytes),
    /// YAML as the client sent it.
    Yaml(bytes::Bytes),
    /// An object made inside the server.
    Value(Value),
}

/// How a PATCH body is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/json-patch+json`.
    Json,
    /// `application/merge-patch+json`.
    Merge,
    /// `application/strategic-merge-patch+json`.
    Strategic,
    /// `application/apply-patch+yaml` (JSON is YAML).
    Apply,
}

impl PatchKind {
    /// The media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

/// A PATCH.
#[derive(Debug, Clone)]
pub struct Patch {
    /// How to read `body`.
    pub kind: PatchKind,
    /// The patch as sent.
    pub body: bytes::Bytes,
    /// `force`: an apply takes over fields of other managers.
    pub force: bool,
}

/// `propagationPolicy` of a delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    /// Dependents stay and lose their owner reference.
    Orphan,
    /// The object goes at once, the garbage collector deletes dependents later.
    Background,
    /// Dependents go first.
    Foreground,
}

/// Conditions for a write.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Preconditions {
    /// The object's UID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The object's resource version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// `DeleteOptions`, from the body or the query. `dryRun` is read by the HTTP layer into [`RequestContext::dry_run`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeleteOptions {
    /// Seconds to give; `None` is the object's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// Conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    /// The old form of `propagationPolicy: Orphan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orphan_dependents: Option<bool>,
    /// What happens to dependents; `None` is the kind's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<Propagation>,
}

/// `ListOptions`, for lists, watches and delete-collection.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListOptions {
    /// Labels.
    pub label_selector: String,
    /// Fields.
    pub field_selector: String,
    /// `""`, `"0"` or a revision.
    pub resource_version: String,
    /// `Exact`, `NotOlderThan` or empty.
    pub resource_version_match: String,
    /// Most items of a page; 0 is all.
    pub limit: i64,
    /// The token of the previous page.
    #[serde(rename = "continue")]
    pub continue_: String,
    /// Bookmarks wanted (watch).
    pub allow_watch_bookmarks: bool,
    /// The state as ADDED events, then a marked bookmark, then changes (watch).
    pub send_initial_events: Option<bool>,
    /// Seconds after which a watch ends; `None` is the server's choice.
    pub timeout_seconds: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manager_falls_back_to_the_user_agent() {
        assert_eq!(field_manager("", "kubectl/v1.37.2 (linux/amd64)"), "kubectl");
        assert_eq!(field_manager("me", "kubectl/v1"), "me");
        assert_eq!(field_manager("", &"é".repeat(100)).len(), 128);
    }

    #[test]
    fn warnings_are_collected_once() {
        let warnings = Warnings::default();
        warnings.add("a");
        warnings.clone().add("a");
        warnings.add("b");
        assert_eq!(warnings.take(), ["a", "b"]);
        assert!(warnings.take().is_empty());
    }
}
