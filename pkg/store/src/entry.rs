//! A cached object: its stored bytes and the few offsets that reading it needs.

use bytes::Bytes;
use serde_json::Value;

use crate::backend::{KeyValue, Revision};

mod scan;

use scan::{Layout, Slice};

/// An object as stored. Immutable; a change makes a new entry.
#[derive(Debug)]
pub struct Entry {
    key: Box<str>,
    bytes: Bytes,
    revision: Revision,
    layout: Layout,
    problem: Option<Box<str>>,
}

impl Entry {
    /// An entry from the store. A value that cannot be read becomes an entry with a [`problem`](Self::problem).
    #[must_use]
    pub fn new(kv: KeyValue) -> Self {
        let KeyValue { key, value, revision } = kv;
        match scan::scan(&value) {
            Ok(layout) => Self { key, bytes: value, revision, layout, problem: None },
            Err(scan::Problem::Order) => Self::reordered(key, &value, revision),
            Err(problem) => {
                let problem = Some(format!("{problem}").into());
                Self { key, bytes: value, revision, layout: Layout::default(), problem }
            }
        }
    }

    /// JSON by another writer whose `kind` and `apiVersion` do not come first.
    fn reordered(key: Box<str>, value: &[u8], revision: Revision) -> Self {
        let read = serde_json::from_slice::<Value>(value).map_err(|e| e.to_string());
        let (bytes, layout, problem) = match read.map(|object| scan::canonical(&object)) {
            Ok(bytes) => match scan::scan(&bytes) {
                Ok(layout) => (Bytes::from(bytes), layout, None),
                Err(problem) => (Bytes::new(), Layout::default(), Some(problem.to_string().into())),
            },
            Err(error) => (Bytes::new(), Layout::default(), Some(error.into())),
        };
        Self { key, bytes, revision, layout, problem }
    }

    /// The full key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The last path element of the key: the object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or_default()
    }

    /// The revision of the last write.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The stored bytes, without a resource version.
    #[must_use]
    pub fn stored(&self) -> &Bytes {
        &self.bytes
    }

    /// Why the value cannot be served, when it cannot.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// The labels.
    #[must_use]
    pub fn labels(&self) -> Labels<'_> {
        Labels(self)
    }

    /// The object's `apiVersion` as stored.
    #[must_use]
    pub fn api_version(&self) -> &str {
        self.text(self.layout.api_version)
    }

    /// The object as JSON in three parts without copying: before the resource version, it, and the rest.
    /// `revision` is the entry's own but for a deletion, which has the deletion's.
    #[must_use]
    pub fn parts(&self, revision: Revision) -> [Bytes; 3] {
        let at = (self.layout.splice as usize).min(self.bytes.len());
        [self.bytes.slice(..at), Bytes::from(self.splice(revision)), self.bytes.slice(at..)]
    }

    /// Appends the object as JSON.
    pub fn write(&self, revision: Revision, out: &mut Vec<u8>) {
        self.write_from(0, revision, out);
    }

    /// Appends the object as an item of a typed list: without `kind` and `apiVersion`.
    pub fn write_untyped(&self, revision: Revision, out: &mut Vec<u8>) {
        out.push(b'{');
        self.write_from(self.layout.head as usize, revision, out);
    }

    /// Appends the object with another `apiVersion`.
    pub fn write_as(&self, api_version: &str, revision: Revision, out: &mut Vec<u8>) {
        let kind = self.text(self.layout.kind);
        out.extend_from_slice(format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",").as_bytes());
        self.write_from(self.layout.head as usize, revision, out);
    }

    fn write_from(&self, from: usize, revision: Revision, out: &mut Vec<u8>) {
        let at = (self.layout.splice as usize).clamp(from, self.bytes.len());
        out.reserve(self.bytes.len() + 40);
        out.extend_from_slice(self.bytes.get(from..at).unwrap_or_default());
        out.extend_from_slice(self.splice(revision).as_bytes());
        out.extend_from_slice(self.bytes.get(at..).unwrap_or_default());
    }

    fn splice(&self, revision: Revision) -> String {
        match self.layout.comma {
            scan::Comma::Before => format!(",\"resourceVersion\":\"{revision}\""),
            scan::Comma::After => format!("\"resourceVersion\":\"{revision}\","),
            scan::Comma::None => format!("\"resourceVersion\":\"{revision}\""),
        }
    }

    /// The object as a tree with its resource version; `None` when it cannot be read.
    #[must_use]
    pub fn value(&self) -> Option<Value> {
        self.value_at(self.revision)
    }

    /// The same with another resource version.
    #[must_use]
    pub fn value_at(&self, revision: Revision) -> Option<Value> {
        let mut value: Value = serde_json::from_slice(&self.bytes).ok()?;
        let meta = value.get_mut("metadata")?.as_object_mut()?;
        meta.insert("resourceVersion".to_owned(), Value::String(revision.to_string()));
        Some(value)
    }

    /// Bytes of memory this entry holds.
    #[must_use]
    pub fn cost(&self) -> usize {
        size_of::<Self>()
            + self.key.len()
            + self.bytes.len()
            + self.layout.labels.len() * size_of::<(Slice, Slice)>()
    }

    fn text(&self, slice: Slice) -> &str {
        let (start, len) = (slice.start as usize, usize::from(slice.len));
        self.bytes.get(start..start + len).and_then(|b| std::str::from_utf8(b).ok()).unwrap_or_default()
    }
}

/// The labels of an entry, read in place.
#[derive(Debug, Clone, Copy)]
pub struct Labels<'a>(&'a Entry);

impl copepod_api::selector::Labels for Labels<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        let entry = self.0;
        entry
            .layout
            .labels
            .iter()
            .find(|(name, _)| entry.text(*name) == key)
            .map(|(_, value)| entry.text(*value))
    }
}

#[cfg(test)]
mod tests;
