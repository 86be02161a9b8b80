//! `metadata.managedFields`: who owns which fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::fieldset::FieldSet;

/// Most managers of operation Update that keep an entry of their own.
const MAX_UPDATERS: usize = 10;

/// The manager that older updates are merged into beyond [`MAX_UPDATERS`].
const ANCIENT: &str = "ancient-changes";

/// What identifies an entry. The order is that of upstream's identifiers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct ManagerId {
    pub(super) manager: String,
    /// `Apply`, `Update`, or the marker of the operation in progress.
    pub(super) operation: String,
    /// Empty for Apply: a manager applies one version at a time.
    pub(super) api_version: String,
    pub(super) subresource: String,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Entry {
    pub(super) set: FieldSet,
    pub(super) api_version: String,
    pub(super) time: Option<String>,
}

/// All entries of an object.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Managers {
    pub(super) entries: BTreeMap<ManagerId, Entry>,
}

impl Managers {
    /// Reads the list; an absent one is empty.
    pub(super) fn decode(list: Option<&Value>) -> Result<Self, String> {
        let mut managers = Self::default();
        for (at, entry) in list.and_then(Value::as_array).into_iter().flatten().enumerate() {
            let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let operation = text("operation");
            if !matches!(operation.as_str(), "Apply" | "Update") {
                return Err("operation must be `Apply` or `Update`".to_owned());
            }
            let api_version = text("apiVersion");
            if api_version.is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match text("fieldsType").as_str() {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {at}")),
                other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {at}")),
            }
            let set = entry.get("fieldsV1").map_or_else(|| Ok(FieldSet::default()), FieldSet::parse);
            let id = ManagerId {
                manager: text("manager"),
                api_version: if operation == "Apply" { String::new() } else { api_version.clone() },
                operation,
                subresource: text("subresource"),
            };
            let set = set.map_err(|error| {
                format!("error decoding versioned set from {}: error decoding set: {error}", id.manager)
            })?;
            let time = entry.get("time").and_then(Value::as_str).map(str::to_owned);
            managers.entries.insert(id, Entry { set, api_version, time });
        }
        Ok(managers)
    }

    /// The list, sorted by operation, time and manager; none when there is no entry.
    pub(super) fn encode(&self) -> Option<Value> {
        if self.entries.is_empty() {
            return None;
        }
        let mut entries: Vec<(&ManagerId, &Entry)> = self.entries.iter().collect();
        entries.sort_by(|(a, x), (b, y)| {
            let key = |id: &ManagerId, entry: &Entry| {
                // RFC 3339 in UTC sorts as text; no time counts as the epoch.
                (
                    id.operation.clone(),
                    entry.time.clone().unwrap_or_default(),
                    id.manager.clone(),
                    entry.api_version.clone(),
                    id.subresource.clone(),
                )
            };
            key(a, x).cmp(&key(b, y))
        });
        Some(Value::Array(entries.into_iter().map(|(id, entry)| encode(id, entry)).collect()))
    }

    /// Removes paths of a manager, and the manager when nothing is left.
    pub(super) fn subtract(&mut self, id: &ManagerId, gone: &FieldSet) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.set = entry.set.difference(gone);
            if entry.set.is_empty() {
                self.entries.remove(id);
            }
        }
    }

    /// Merges the oldest updaters of a version into one entry until few enough are left.
    pub(super) fn cap(&mut self) {
        let mut updaters: Vec<ManagerId> =
            self.entries.keys().filter(|id| id.operation != "Apply").cloned().collect();
        let mut count = updaters.len();
        updaters.sort_by_key(|id| (self.entries.get(id).and_then(|entry| entry.time.clone()), id.clone()));
        let mut first_of: BTreeMap<String, ManagerId> = BTreeMap::new();
        for id in updaters {
            if count <= MAX_UPDATERS {
                return;
            }
            let Some(entry) = self.entries.get(&id).cloned() else { continue };
            let bucket = ManagerId {
                manager: ANCIENT.to_owned(),
                operation: "Update".to_owned(),
                api_version: entry.api_version.clone(),
                subresource: String::new(),
            };
            let Some(first) = first_of.get(&entry.api_version) else {
                first_of.insert(entry.api_version, id);
                continue;
            };
            if !self.entries.contains_key(&bucket)
                && let Some(first) = self.entries.remove(first)
            {
                self.entries.insert(bucket.clone(), first);
            }
            self.entries.remove(&id);
            let merged = self.entries.entry(bucket).or_default();
            merged.set = merged.set.union(&entry.set);
            merged.api_version = entry.api_version;
            merged.time = entry.time;
            count -= 1;
        }
    }
}

fn encode(id: &ManagerId, entry: &Entry) -> Value {
    let mut map = Map::new();
    let mut text = |key: &str, value: &str| {
        if !value.is_empty() {
            map.insert(key.to_owned(), value.into());
        }
    };
    text("manager", &id.manager);
    text("operation", &id.operation);
    text("apiVersion", &entry.api_version);
    text("time", entry.time.as_deref().unwrap_or_default());
    text("fieldsType", "FieldsV1");
    text("subresource", &id.subresource);
    map.insert("fieldsV1".to_owned(), entry.set.serialize());
    Value::Object(map)
}

/// Whether a request asks to forget all owners: an empty list, or one empty entry.
pub(super) fn is_reset(list: Option<&Value>) -> bool {
    match list.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([one]) => *one == json!({}),
        _ => false,
    }
}
