//! Options of the verbs: what upstream's query parameters and `DeleteOptions` carry.

use serde::Serialize;
use serde_json::Value;

use crate::resource::Query;

/// What a list or a watch selects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Label selector in its string form; empty selects all.
    pub label_selector: String,
    /// Field selector in its string form; empty selects all.
    pub field_selector: String,
    /// Page size; 0 asks for everything at once.
    pub limit: u32,
    /// Token of the next page, from the previous answer.
    pub continue_token: String,
    /// Resource version; empty asks for the newest state.
    pub resource_version: String,
    /// `Exact` or `NotOlderThan`; empty for the server's default.
    pub resource_version_match: &'static str,
}

impl ListOptions {
    /// Objects that match the label selector.
    #[must_use]
    pub fn labels(selector: impl Into<String>) -> Self {
        Self { label_selector: selector.into(), ..Self::default() }
    }

    /// Objects that match the field selector.
    #[must_use]
    pub fn fields(selector: impl Into<String>) -> Self {
        Self { field_selector: selector.into(), ..Self::default() }
    }

    pub(crate) fn query(&self) -> Query {
        let limit = if self.limit == 0 { String::new() } else { self.limit.to_string() };
        Query::default()
            .set("labelSelector", &self.label_selector)
            .set("fieldSelector", &self.field_selector)
            .set("limit", &limit)
            .set("continue", &self.continue_token)
            .set("resourceVersion", &self.resource_version)
            .set("resourceVersionMatch", self.resource_version_match)
    }
}

/// How a watch starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// Label selector in its string form.
    pub label_selector: String,
    /// Field selector in its string form.
    pub field_selector: String,
    /// Where to start: exclusive revision; empty starts from "any".
    pub resource_version: String,
    /// Ask for the current objects first, closed by a marked bookmark.
    pub send_initial_events: bool,
    /// After how many seconds the server ends the watch; 0 leaves it to the server.
    pub timeout_seconds: u32,
}

impl WatchOptions {
    pub(crate) fn query(&self) -> Query {
        let timeout =
            if self.timeout_seconds == 0 { String::new() } else { self.timeout_seconds.to_string() };
        let initial = self.send_initial_events;
        Query::default()
            .flag("watch", true)
            .flag("allowWatchBookmarks", true)
            .set("labelSelector", &self.label_selector)
            .set("fieldSelector", &self.field_selector)
            .set("resourceVersion", &self.resource_version)
            .flag("sendInitialEvents", initial)
            .set("resourceVersionMatch", if initial { "NotOlderThan" } else { "" })
            .set("timeoutSeconds", &timeout)
    }
}

/// What becomes of an object's dependents when it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Propagation {
    /// The garbage collector deletes them afterwards.
    Background,
    /// They go first; the object waits for them.
    Foreground,
    /// They stay and lose their owner.
    Orphan,
}

/// What must hold for a write to be carried out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// The object's UID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The object's resource version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// Options of a delete.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOptions {
    /// Seconds of grace; the kind's own default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// Conditions of the delete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    /// What becomes of the dependents; the kind's own default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<Propagation>,
}

impl DeleteOptions {
    /// Delete only the object that has this UID.
    #[must_use]
    pub fn uid(uid: &str) -> Self {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        Self { preconditions: Some(preconditions), ..Self::default() }
    }

    /// The same with a grace period.
    #[must_use]
    pub fn grace(mut self, seconds: i64) -> Self {
        self.grace_period_seconds = Some(seconds);
        self
    }

    /// The same with a propagation policy.
    #[must_use]
    pub fn propagation(mut self, policy: Propagation) -> Self {
        self.propagation_policy = Some(policy);
        self
    }
}

/// A patch and its media type.
#[derive(Debug, Clone, PartialEq)]
pub enum Patch {
    /// JSON patch (RFC 6902): a list of operations.
    Json(Value),
    /// JSON merge patch (RFC 7386).
    Merge(Value),
    /// Strategic merge patch.
    Strategic(Value),
    /// Server-side apply in the name of `manager`.
    Apply {
        /// The object as the manager wants it.
        body: Value,
        /// Field manager.
        manager: String,
        /// Take over fields that others own.
        force: bool,
    },
}

impl Patch {
    pub(crate) fn body(&self) -> &Value {
        match self {
            Self::Json(body) | Self::Merge(body) | Self::Strategic(body) | Self::Apply { body, .. } => body,
        }
    }

    pub(crate) fn content_type(&self) -> &'static str {
        match self {
            Self::Json(_) => "application/json-patch+json",
            Self::Merge(_) => "application/merge-patch+json",
            Self::Strategic(_) => "application/strategic-merge-patch+json",
            // JSON is YAML, so every server version that applies accepts it under this name.
            Self::Apply { .. } => "application/apply-patch+yaml",
        }
    }

    pub(crate) fn query(&self) -> Query {
        match self {
            Self::Apply { manager, force, .. } => {
                Query::default().set("fieldManager", manager).flag("force", *force)
            }
            _ => Query::default(),
        }
    }
}
