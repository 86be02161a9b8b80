//! The cluster as one scheduling cycle sees it.

use std::collections::BTreeMap;
use std::sync::Arc;

use copepod_client::ObjectKey;

use crate::node::Node;
use crate::pod::Pod;
use crate::resources::Resources;
use crate::selector::Labels;

/// A node with what is placed on it.
#[derive(Debug, Clone, Default)]
pub struct NodeInfo {
    /// The node; `None` while only its pods are known.
    pub node: Option<Arc<Node>>,
    /// Pods that take up room, those being bound included.
    pub pods: Vec<Arc<Pod>>,
    /// The sum of their requests.
    pub requested: Resources,
    /// The same with defaults for what is not asked for.
    pub assumed: Resources,
}

impl NodeInfo {
    /// Places a pod.
    pub fn add(&mut self, pod: Arc<Pod>) {
        self.requested.add(&pod.requests);
        self.assumed.add(&pod.assumed);
        self.pods.push(pod);
    }

    /// Takes a pod away.
    pub fn remove(&mut self, uid: &str) {
        if let Some(at) = self.pods.iter().position(|p| &*p.uid == uid) {
            let pod = self.pods.swap_remove(at);
            self.requested.subtract(&pod.requests);
            self.assumed.subtract(&pod.assumed);
        }
    }
}

/// Nodes by name, and the labels of namespaces for affinity terms that ask for them.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    nodes: BTreeMap<Box<str>, NodeInfo>,
    /// Where each pod (by key) is placed, with its UID.
    placed: BTreeMap<ObjectKey, (Box<str>, Box<str>)>,
    /// Labels of namespaces.
    pub namespaces: BTreeMap<String, Labels>,
}

impl Snapshot {
    /// Nodes that exist, with their contents.
    pub fn nodes(&self) -> impl Iterator<Item = (&Arc<Node>, &NodeInfo)> {
        self.nodes.values().filter_map(|info| info.node.as_ref().map(|node| (node, info)))
    }

    /// One node's contents.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&NodeInfo> {
        self.nodes.get(name)
    }

    /// One node's contents, to try something out on a copy.
    pub fn node_mut(&mut self, name: &str) -> Option<&mut NodeInfo> {
        self.nodes.get_mut(name)
    }

    /// Takes a node's new state.
    pub fn set_node(&mut self, node: Arc<Node>) {
        let name = node.name.clone();
        self.nodes.entry(name).or_default().node = Some(node);
    }

    /// Forgets a node; its pods are remembered until they go.
    pub fn remove_node(&mut self, name: &str) {
        if let Some(info) = self.nodes.get_mut(name) {
            info.node = None;
            if info.pods.is_empty() {
                self.nodes.remove(name);
            }
        }
    }

    /// Takes a pod's new state: placed, moved from assumed to real, or holding nothing any more.
    pub fn set_pod(&mut self, pod: &Arc<Pod>) {
        let stays_assumed = pod.node_name.is_empty()
            && self.placed.get(&pod.key).is_some_and(|(_, uid)| *uid == pod.uid)
            && !pod.finished;
        if stays_assumed {
            return;
        }
        self.remove_pod(&pod.key);
        if pod.occupies() {
            self.placed.insert(pod.key.clone(), (pod.node_name.clone(), pod.uid.clone()));
            self.nodes.entry(pod.node_name.clone()).or_default().add(Arc::clone(pod));
        }
    }

    /// Forgets a pod.
    pub fn remove_pod(&mut self, key: &ObjectKey) {
        let Some((node, uid)) = self.placed.remove(key) else { return };
        if let Some(info) = self.nodes.get_mut(&node) {
            info.remove(&uid);
            if info.node.is_none() && info.pods.is_empty() {
                self.nodes.remove(&node);
            }
        }
    }

    /// Whether a pod with this UID is placed.
    #[must_use]
    pub fn has(&self, key: &ObjectKey, uid: &str) -> bool {
        self.placed.get(key).is_some_and(|(_, known)| &**known == uid)
    }
}
