//! Answers: objects, lists and watch events that write themselves without parsing where they can.

use std::sync::Arc;

use bytes::Bytes;
use copepod_api::{ApiError, ApiResult, Status};
use copepod_store::{Entry, Revision};
use serde_json::{Value, json};

use crate::{codec, row::Row};

#[derive(Debug, Clone)]
enum Repr {
    /// Stored bytes that are the answer.
    Stored { entry: Arc<Entry>, revision: Revision },
    /// A tree in the served version, written in the row's field order.
    Tree { value: Value, row: Option<Arc<Row>> },
}

/// An object as clients of a row see it.
#[derive(Debug, Clone)]
pub struct Object(Repr);

impl Object {
    /// An object from a stored entry, as a row serves it.
    pub(crate) fn stored(row: &Arc<Row>, entry: &Arc<Entry>, revision: Revision) -> ApiResult<Self> {
        if row.served_as_stored() && entry.problem().is_none() && entry.api_version() == row.stored_version {
            return Ok(Self(Repr::Stored { entry: Arc::clone(entry), revision }));
        }
        Ok(Self::served(row, row.serve(row.load_at(entry, revision)?)))
    }

    /// An object in the served version.
    pub(crate) fn served(row: &Arc<Row>, value: Value) -> Self {
        Self(Repr::Tree { value, row: Some(Arc::clone(row)) })
    }

    /// An object of another kind than the row's, such as a Scale.
    #[must_use]
    pub fn other(value: Value) -> Self {
        Self(Repr::Tree { value, row: None })
    }

    /// The object as JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let mut out = Vec::new();
        self.write(&mut out);
        out.into()
    }

    /// Appends the object as JSON.
    pub fn write(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Repr::Stored { entry, revision } => entry.write(*revision, out),
            Repr::Tree { value, row: Some(row) } => out.extend(codec::encode(value, row.schema.root())),
            Repr::Tree { value, row: None } => out.extend_from_slice(value.to_string().as_bytes()),
        }
    }

    /// The object as a tree.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match &self.0 {
            // Entries with a problem are refused when the object is made.
            Repr::Stored { entry, revision } => entry.value_at(*revision).unwrap_or_default(),
            Repr::Tree { value, .. } => value.clone(),
        }
    }

    /// The same, taking the object apart.
    #[must_use]
    pub fn into_value(self) -> Value {
        match self.0 {
            Repr::Tree { value, .. } => value,
            Repr::Stored { .. } => self.to_value(),
        }
    }

    fn write_item(&self, typed: bool, out: &mut Vec<u8>) {
        match &self.0 {
            Repr::Stored { entry, revision } if !typed => entry.write_untyped(*revision, out),
            Repr::Tree { value, row: Some(row) } if !typed => {
                let mut value = value.clone();
                if let Some(map) = value.as_object_mut() {
                    map.remove("kind");
                    map.remove("apiVersion");
                }
                out.extend(codec::encode(&value, row.schema.root()));
            }
            _ => self.write(out),
        }
    }
}

/// The outcome of an update or patch.
#[derive(Debug, Clone)]
pub struct Written {
    /// The object as it is now.
    pub object: Object,
    /// Whether it was created (201).
    pub created: bool,
}

/// The outcome of a delete.
#[derive(Debug, Clone)]
pub enum Deleted {
    /// It is gone.
    Status(Box<Status>),
    /// It is going (waiting for its grace period or finalizers), or its kind answers with the object.
    Object {
        /// The object.
        object: Box<Object>,
        /// Whether it is gone.
        gone: bool,
    },
}

/// A list, or a page of one.
#[derive(Debug, Clone)]
pub struct ObjectList {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    /// Whether items carry `kind` and `apiVersion` (custom resources).
    pub(crate) typed: bool,
    /// The list's revision.
    pub revision: Revision,
    /// The token of the next page; empty at the end.
    pub continue_: String,
    /// How many items come after this page, when known.
    pub remaining: Option<usize>,
    /// The items.
    pub items: Vec<Object>,
}

impl ObjectList {
    /// `metadata` of the list, as Tables and other forms carry it too.
    #[must_use]
    pub fn metadata(&self) -> Value {
        let mut meta = json!({"resourceVersion": self.revision.to_string()});
        if !self.continue_.is_empty() {
            meta["continue"] = self.continue_.clone().into();
        }
        if let Some(remaining) = self.remaining {
            meta["remainingItemCount"] = remaining.into();
        }
        meta
    }

    /// The list as JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let mut metadata = self.metadata();
        if self.typed && self.continue_.is_empty() {
            // Lists of custom resources say that there is no more.
            metadata["continue"] = "".into();
        }
        let head = format!(
            "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{},\"items\":[",
            Value::from(self.kind.as_str()),
            Value::from(self.api_version.as_str()),
            metadata
        );
        let mut out = Vec::with_capacity(head.len() + self.items.len() * 1024);
        out.extend_from_slice(head.as_bytes());
        for (at, item) in self.items.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            item.write_item(self.typed, &mut out);
        }
        out.extend_from_slice(b"]}\n");
        out.into()
    }
}

/// What a watch event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WatchKind {
    /// The object is there now.
    Added,
    /// The object changed.
    Modified,
    /// The object is gone.
    Deleted,
    /// Nothing happened up to the object's resource version.
    Bookmark,
    /// The watch is over; the object is a Status.
    Error,
}

impl WatchKind {
    /// As it travels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }
}

/// A watch event.
#[derive(Debug, Clone)]
pub struct WatchItem {
    /// What happened.
    pub kind: WatchKind,
    /// The object; a Status for an error.
    pub object: Object,
}

impl WatchItem {
    /// The event that ends a watch.
    #[must_use]
    pub fn error(error: &ApiError) -> Self {
        let status = serde_json::to_value(error.status()).unwrap_or_default();
        Self { kind: WatchKind::Error, object: Object::other(status) }
    }

    /// The event as a line of JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(self.kind.as_str().as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        self.object.write(&mut out);
        out.extend_from_slice(b"}\n");
        out.into()
    }
}
