//! The objects, their indexes and the revision they are at.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::Delta;
use crate::ObjectKey;

/// A key and what happened to it.
pub(super) type Change<T> = (ObjectKey, Delta<T>);

/// An object with what the cache itself needs to know of it.
pub(super) struct Entry<T> {
    pub(super) object: Arc<T>,
    pub(super) uid: Box<str>,
    pub(super) revision: Box<str>,
    pub(super) deleting: bool,
}

type IndexFn<T> = Box<dyn Fn(&T) -> Vec<String> + Send + Sync>;

struct IndexState<T> {
    values: IndexFn<T>,
    keys: HashMap<String, BTreeSet<ObjectKey>>,
}

pub(super) struct Store<T> {
    objects: BTreeMap<ObjectKey, Entry<T>>,
    indexes: Vec<IndexState<T>>,
    revision: String,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), indexes: Vec::new(), revision: String::new() }
    }
}

/// Whether revision `a` is older than `b`; both are decimal numbers without leading zeros.
pub(super) fn older(a: &str, b: &str) -> bool {
    (a.len(), a) < (b.len(), b)
}

impl<T> Store<T> {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Arc<T>> {
        self.objects.get(key).map(|e| &e.object)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<T>)> {
        self.objects.iter().map(|(key, entry)| (key, &entry.object))
    }

    pub(super) fn namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<T>> {
        let range = self.objects.range(ObjectKey::new(namespace, "")..);
        range.take_while(move |(key, _)| key.namespace == namespace).map(|(_, entry)| &entry.object)
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn revision(&self) -> &str {
        &self.revision
    }

    pub(super) fn set_revision(&mut self, revision: &str) {
        if older(&self.revision, revision) {
            revision.clone_into(&mut self.revision);
        }
    }

    pub(super) fn gone(&self, key: &ObjectKey, uid: &str) -> bool {
        self.objects.get(key).is_none_or(|entry| &*entry.uid != uid || entry.deleting)
    }

    pub(super) fn by_index(&self, index: usize, value: &str) -> Vec<Arc<T>> {
        let keys = self.indexes.get(index).and_then(|i| i.keys.get(value));
        keys.into_iter().flatten().filter_map(|key| self.get(key).cloned()).collect()
    }

    pub(super) fn add_index(&mut self, values: IndexFn<T>) -> usize {
        let mut index = IndexState { values, keys: HashMap::new() };
        for (key, entry) in &self.objects {
            index.insert(key, &entry.object);
        }
        self.indexes.push(index);
        self.indexes.len() - 1
    }

    /// Takes a new state of an object; an object that was replaced under its name is told as deleted and added.
    pub(super) fn upsert(&mut self, key: ObjectKey, entry: Entry<T>) -> Vec<Change<T>> {
        let new = Arc::clone(&entry.object);
        for index in &mut self.indexes {
            index.insert(&key, &new);
        }
        let uid = entry.uid.clone();
        let Some(old) = self.objects.insert(key.clone(), entry) else {
            return vec![(key, Delta::Added(new))];
        };
        for index in &mut self.indexes {
            index.remove_stale(&key, &old.object, Some(&new));
        }
        if old.uid == uid {
            return vec![(key, Delta::Updated { old: old.object, new })];
        }
        vec![(key.clone(), Delta::Deleted(old.object)), (key, Delta::Added(new))]
    }

    pub(super) fn remove(&mut self, key: &ObjectKey, last: Option<Arc<T>>) -> Vec<Change<T>> {
        let Some(old) = self.objects.remove(key) else { return Vec::new() };
        for index in &mut self.indexes {
            index.remove_stale(key, &old.object, None);
        }
        vec![(key.clone(), Delta::Deleted(last.unwrap_or(old.object)))]
    }

    /// Takes a full set; what is not in it is gone, what has not changed is not told again.
    pub(super) fn replace(
        &mut self,
        mut full: BTreeMap<ObjectKey, Entry<T>>,
        revision: &str,
    ) -> Vec<Change<T>> {
        let gone: Vec<_> = self.objects.keys().filter(|key| !full.contains_key(key)).cloned().collect();
        let mut changes: Vec<_> = gone.iter().flat_map(|key| self.remove(key, None)).collect();
        full.retain(|key, entry| {
            self.objects
                .get(key)
                .is_none_or(|known| known.uid != entry.uid || known.revision != entry.revision)
        });
        for (key, entry) in full {
            changes.extend(self.upsert(key, entry));
        }
        // Not `set_revision`: a restored backup legitimately goes back.
        revision.clone_into(&mut self.revision);
        changes
    }
}

impl<T> IndexState<T> {
    fn insert(&mut self, key: &ObjectKey, object: &T) {
        for value in (self.values)(object) {
            self.keys.entry(value).or_default().insert(key.clone());
        }
    }

    fn remove_stale(&mut self, key: &ObjectKey, old: &T, new: Option<&T>) {
        let kept = new.map(|object| (self.values)(object)).unwrap_or_default();
        for value in (self.values)(old) {
            if kept.contains(&value) {
                continue;
            }
            if let Some(keys) = self.keys.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(&value);
                }
            }
        }
    }
}
