//! One served version of one resource, with everything the verbs need of it.

use std::{sync::Arc, time::Duration};

use copepod_api::{ApiResult, GroupVersionKind, ResourceDef, meta};
use copepod_schema::{SchemaRef, SchemaSet};
use copepod_store::Entry;
use serde_json::Value;

use crate::{
    allocation::Allocation,
    codec,
    convert::{Conversion, ConversionWebhook},
    error::unreasoned,
    hooks::Hooks,
};

/// The schema of a version.
#[derive(Debug, Clone)]
pub enum Schema {
    /// Of a built-in kind.
    Builtin(SchemaRef<'static>),
    /// Of a custom resource.
    Custom(Arc<SchemaSet>),
}

impl Schema {
    /// The root node.
    #[must_use]
    pub fn root(&self) -> SchemaRef<'_> {
        match self {
            Self::Builtin(root) => *root,
            Self::Custom(set) => set.root().expect("sets of custom resources are made with a root"),
        }
    }
}

/// What deletion does with dependents when the client does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum GarbagePolicy {
    /// They go in the background.
    #[default]
    DeleteDependents,
    /// They stay.
    OrphanDependents,
    /// The kind has none and takes no garbage collection finalizers.
    Unsupported,
}

/// Paths of a custom resource's `scale` subresource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) selector: Option<String>,
}

/// A row of the registry.
pub(crate) struct Row {
    pub(crate) def: Arc<ResourceDef>,
    /// Schema of the served version: what bodies are decoded by.
    pub(crate) schema: Schema,
    /// The version hooks and validation work in.
    pub(crate) working: GroupVersionKind,
    pub(crate) working_schema: Schema,
    /// The `apiVersion` of stored objects, and their field order.
    pub(crate) stored_version: String,
    pub(crate) stored_schema: Schema,
    pub(crate) conversion: Conversion,
    /// What converts when `conversion` says so.
    pub(crate) webhook: Option<Arc<ConversionWebhook>>,
    /// Rules in CEL of a custom resource that has any.
    pub(crate) rules: Option<copepod_cel::rules::Rules>,
    pub(crate) hooks: Arc<dyn Hooks>,
    pub(crate) garbage: GarbagePolicy,
    /// Whether a delete answers with the object instead of a status.
    pub(crate) returns_deleted: bool,
    pub(crate) ttl: Option<Duration>,
    pub(crate) allocation: Option<Arc<dyn Allocation>>,
    pub(crate) scale: Option<ScalePaths>,
    /// Whether stored objects are completed and pruned by the schema when read (custom resources with defaults).
    pub(crate) complete_on_read: bool,
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Row").field(&self.def.gvr()).finish()
    }
}

impl Row {
    /// The kind as errors name it: the internal one, of which both groups' events are forms.
    pub(crate) fn named_in_errors(&self) -> GroupVersionKind {
        match self.conversion {
            Conversion::Event => GroupVersionKind::new("", "v1", &self.working.kind),
            _ => self.working.clone(),
        }
    }

    /// Whether the resource has this subresource.
    pub(crate) fn has_status(&self) -> bool {
        self.def.subresource("status").is_some()
    }

    /// Whether stored bytes are the answer as they are.
    pub(crate) fn served_as_stored(&self) -> bool {
        self.conversion == Conversion::None && !self.complete_on_read
    }

    /// A stored object in the version the pipeline works in.
    pub(crate) fn load(&self, entry: &Entry) -> ApiResult<Value> {
        self.load_at(entry, entry.revision())
    }

    /// The same with another resource version.
    pub(crate) fn load_at(&self, entry: &Entry, revision: i64) -> ApiResult<Value> {
        if let Some(problem) = entry.problem() {
            return Err(unreasoned(&format!("{}: {problem}", entry.key())));
        }
        let value = entry.value_at(revision);
        let mut value = value.ok_or_else(|| unreasoned(&format!("{}: not readable", entry.key())))?;
        if self.webhook.is_some() && entry.api_version() != self.working.api_version() {
            // Entries are converted before they come here; see `Store::converted`.
            return Err(unreasoned(&format!("{}: not converted from {}", entry.key(), entry.api_version())));
        }
        self.conversion.load(&mut value, &self.working.api_version());
        if self.complete_on_read {
            codec::complete(&mut value, self.working_schema.root());
        }
        Ok(value)
    }

    /// The stored bytes of an object in the working version.
    pub(crate) fn store(&self, object: &Value) -> Vec<u8> {
        let mut object = object.clone();
        meta::metadata_mut(&mut object).remove("resourceVersion");
        self.conversion.store(&mut object, &self.stored_version);
        codec::encode(&object, self.stored_schema.root())
    }

    /// An object in the working version as clients of this row see it.
    pub(crate) fn serve(&self, mut object: Value) -> Value {
        self.conversion.serve(&mut object);
        if self.conversion == Conversion::Autoscaling {
            codec::canonical(&mut object, &self.schema);
        }
        object
    }
}
