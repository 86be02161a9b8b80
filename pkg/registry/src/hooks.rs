//! What a kind adds to the generic store: its strategy.
//!
//! Hooks are pure and synchronous, so that the store is a plain compare-and-swap loop that may run them again.
//! Every method has a default; a plain kind implements one or two.

use copepod_api::FieldErrors;
use jiff::Timestamp;
use serde_json::Value;

use crate::request::UserInfo;

/// What a hook may know of the request it runs in.
#[derive(Debug, Clone)]
pub struct HookContext<'a> {
    /// Who asks.
    pub user: &'a UserInfo,
    /// The subresource being written: `status`, `scale`, …; `None` for the object itself.
    pub subresource: Option<&'a str>,
    /// The time of the request.
    pub now: Timestamp,
}

/// The behaviour of one kind (upstream's `RESTCreateStrategy` and its siblings).
pub trait Hooks: Send + Sync {
    /// Functional defaults (`SetDefaults_*`), after the schema's own. Also runs on objects read from storage, so it
    /// must be idempotent and depend on the object alone.
    fn default(&self, _object: &mut Value) {}

    /// Defaults of what a client sends that depend on the time of the request; before its fields are owned.
    fn default_now(&self, _now: Timestamp, _object: &mut Value) {}

    /// Clears what a client may not set and sets what the server owns, before validation of a create. The store has
    /// already set name, namespace, UID and creation time (a Job's generated selector needs the UID).
    fn prepare_create(&self, _cx: &HookContext<'_>, _new: &mut Value) {}

    /// The same for an update of the object itself (the store has already kept `status` from `old` when the kind has
    /// a status subresource, and system metadata). Raising `metadata.generation` on spec changes is the store's work.
    fn prepare_update(&self, _cx: &HookContext<'_>, _new: &mut Value, _old: &Value) {}

    /// The same for an update of `status` (the store has already kept everything but `status` from `old`).
    fn prepare_status(&self, _cx: &HookContext<'_>, _new: &mut Value, _old: &Value) {}

    /// Everything wrong with a new object beyond its types; object metadata is checked by the store.
    fn validate_create(&self, _cx: &HookContext<'_>, _new: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    /// Everything wrong with a change: as for create, and immutable fields.
    fn validate_update(&self, cx: &HookContext<'_>, new: &Value, _old: &Value) -> FieldErrors {
        self.validate_create(cx, new)
    }

    /// Everything wrong with a status change.
    fn validate_status(&self, _cx: &HookContext<'_>, _new: &Value, _old: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    /// What `metadata.name` must look like; texts of what is wrong. Most kinds want an RFC 1123 subdomain.
    fn validate_name(&self, name: &str) -> Vec<String> {
        copepod_api::names::dns1123_subdomain(name)
    }

    /// Warnings for the client on create (`old` is `None`) and update.
    fn warnings(&self, _cx: &HookContext<'_>, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Whether PUT of a missing name creates it.
    fn create_on_update(&self) -> bool {
        false
    }

    /// Whether an update without `resourceVersion` is accepted.
    fn unconditional_update(&self) -> bool {
        true
    }

    /// Whether the kind counts spec changes in `metadata.generation`.
    fn has_generation(&self) -> bool {
        true
    }

    /// Whether a change counts in `metadata.generation`: of the spec, for most kinds that count at all.
    fn generation_changed(&self, new: &Value, old: &Value) -> bool {
        new.get("spec") != old.get("spec")
    }

    /// Graceful deletion: the grace period in seconds to use for `requested` (pods), or `None` for immediate deletion.
    fn grace_period(&self, _object: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Why an object of this name may not be deleted.
    fn undeletable(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// The value of a selectable field that is not a plain path into the object.
    fn field<'a>(&self, _object: &'a Value, _field: &str) -> Option<std::borrow::Cow<'a, str>> {
        None
    }
}

/// The strategy of kinds that need nothing of their own.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl Hooks for Plain {}
