//! Objects and who owns them. Pure.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use copepod_client::{Meta, ObjectKey, OwnerReference, ResourceRef};

use super::{FOREGROUND, ORPHAN};

/// An object in the graph.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) resource: Arc<ResourceRef>,
    pub(super) key: ObjectKey,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) deleting: bool,
    /// Being deleted, and waits for its dependents.
    pub(super) foreground: bool,
    /// Being deleted, and its dependents are to lose it first.
    pub(super) orphan: bool,
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: HashMap<String, Node>,
    dependents: HashMap<String, HashSet<String>>,
}

impl Graph {
    pub(super) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    pub(super) fn dependents(&self, uid: &str) -> Vec<String> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Dependents that a foreground deletion of `uid` waits for.
    pub(super) fn blocking(&self, uid: &str) -> Vec<String> {
        let blocks = |dependent: &String| {
            self.nodes.get(dependent).is_some_and(|node| {
                node.owners.iter().any(|o| o.uid == uid && o.block_owner_deletion == Some(true))
            })
        };
        self.dependents.get(uid).into_iter().flatten().filter(|d| blocks(d)).cloned().collect()
    }

    /// Takes an object's new state; returns the UIDs to look at.
    pub(super) fn upsert(&mut self, resource: &Arc<ResourceRef>, meta: &Meta) -> Vec<String> {
        if meta.uid.is_empty() {
            return Vec::new();
        }
        let finalizer = |name: &str| meta.deleting() && meta.finalizers.iter().any(|f| f == name);
        let node = Node {
            resource: Arc::clone(resource),
            key: meta.key(),
            owners: meta.owner_references.clone(),
            deleting: meta.deleting(),
            foreground: finalizer(FOREGROUND),
            orphan: finalizer(ORPHAN),
        };
        let mut due = Vec::new();
        if node.foreground || node.orphan {
            due.push(meta.uid.clone());
        }
        if node.foreground {
            due.extend(self.dependents(&meta.uid));
        }
        let owner_gone = |o: &OwnerReference| self.nodes.get(&o.uid).is_none_or(|n| n.foreground);
        if !node.deleting && node.owners.iter().any(owner_gone) {
            due.push(meta.uid.clone());
        }
        let old = self.nodes.insert(meta.uid.clone(), node);
        let old_owners = old.map(|n| n.owners).unwrap_or_default();
        if old_owners != meta.owner_references {
            // An owner that waits may be free now.
            due.extend(self.unlink(&meta.uid, &old_owners));
            for owner in &meta.owner_references {
                self.dependents.entry(owner.uid.clone()).or_default().insert(meta.uid.clone());
            }
        }
        due
    }

    /// Takes an object out; returns the UIDs to look at: its dependents, and owners that waited for it.
    pub(super) fn remove(&mut self, uid: &str) -> Vec<String> {
        let Some(node) = self.nodes.remove(uid) else { return Vec::new() };
        let mut due = self.unlink(uid, &node.owners);
        due.extend(self.dependents(uid));
        due
    }

    fn unlink(&mut self, uid: &str, owners: &[OwnerReference]) -> Vec<String> {
        let mut waiting = Vec::new();
        for owner in owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
            if self.nodes.get(&owner.uid).is_some_and(|n| n.foreground) {
                waiting.push(owner.uid.clone());
            }
        }
        waiting
    }
}

#[cfg(test)]
mod tests {
    use copepod_client::resources::PODS;

    use super::*;

    fn meta(uid: &str, owners: &[&str]) -> Meta {
        let owner = |uid: &&str| OwnerReference {
            uid: (*uid).to_owned(),
            block_owner_deletion: Some(true),
            ..OwnerReference::default()
        };
        Meta { uid: uid.to_owned(), owner_references: owners.iter().map(owner).collect(), ..Meta::default() }
    }

    #[test]
    fn changes_wake_whom_they_concern() {
        let resource = Arc::new(PODS);
        let mut graph = Graph::default();
        assert_eq!(
            graph.upsert(&resource, &meta("child", &["owner"])),
            ["child"],
            "its owner is not known yet"
        );
        assert!(graph.upsert(&resource, &meta("owner", &[])).is_empty());
        assert!(graph.upsert(&resource, &meta("child", &["owner"])).is_empty());
        let mut dying = meta("owner", &[]);
        dying.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH);
        dying.finalizers.push(FOREGROUND.to_owned());
        assert_eq!(graph.upsert(&resource, &dying), ["owner", "child"]);
        assert_eq!(graph.blocking("owner"), ["child"]);
        assert_eq!(graph.remove("child"), ["owner"], "the owner waited for it");
        assert!(graph.blocking("owner").is_empty());
        graph.upsert(&resource, &meta("late", &["owner"]));
        assert_eq!(graph.remove("owner"), ["late"]);
    }
}
