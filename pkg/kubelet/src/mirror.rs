//! Mirror pods: the API's image of static pods.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use copepod_client::resources::{NODES, PODS};
use copepod_client::{Client, DeleteOptions};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use crate::pod::{CONFIG_HASH, CONFIG_MIRROR, CONFIG_SOURCE, PodExt};
use crate::status::manager::StatusManager;
use crate::types::PodRef;

/// How often a mirror is tried at once, and the first pause; each further one is twice as long.
const TRIES: u32 = 7;
const FIRST_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// One mirror as the API has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mirror {
    uid: String,
    hash: String,
    deleted: bool,
}

/// Creates and deletes mirrors and knows those that exist.
#[derive(Debug)]
pub struct Mirrors {
    client: Client,
    node: String,
    node_uid: RwLock<Option<String>>,
    known: RwLock<HashMap<String, Mirror>>,
    /// Full names of pods whose mirror is being made.
    busy: Mutex<HashSet<String>>,
}

impl Mirrors {
    /// Mirrors of `node`'s static pods.
    #[must_use]
    pub fn new(client: Client, node: &str) -> Self {
        Self {
            client,
            node: node.to_owned(),
            node_uid: RwLock::default(),
            known: RwLock::default(),
            busy: Mutex::default(),
        }
    }

    /// The API's UID of the mirror of a static pod.
    #[must_use]
    pub fn uid(&self, namespace: &str, name: &str) -> Option<String> {
        self.known.read().get(&format!("{name}_{namespace}")).map(|m| m.uid.clone())
    }

    /// Mirrors whose deletion was asked for, by full name: they are to be replaced.
    #[must_use]
    pub fn doomed(&self) -> Vec<String> {
        self.known.read().iter().filter(|(_, m)| m.deleted).map(|(name, _)| name.clone()).collect()
    }

    /// Takes over the mirrors among the API's pods; names of those that are new.
    pub fn observe(&self, pods: &[PodRef]) -> Vec<String> {
        let now: HashMap<String, Mirror> = pods
            .iter()
            .filter(|p| p.is_mirror())
            .map(|p| {
                let hash = p.annotation(CONFIG_MIRROR).unwrap_or_default().to_owned();
                (p.full_name(), Mirror { uid: p.uid().to_owned(), hash, deleted: p.is_deleted() })
            })
            .collect();
        let mut known = self.known.write();
        let news = now.iter().filter(|(name, m)| known.get(*name).is_none_or(|k| k.uid != m.uid));
        let news = news.map(|(name, _)| name.clone()).collect();
        *known = now;
        news
    }

    /// Mirrors that exist, by full name.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.known.read().keys().cloned().collect()
    }

    /// [`Mirrors::ensure`] in a task of its own: a static pod never waits for the API server, least of all the API
    /// server's own.
    pub(crate) fn ensure_in_background(self: &Arc<Self>, pod: &PodRef, statuses: &Arc<StatusManager>) {
        if pod.annotation(CONFIG_SOURCE) != Some("file") || self.is_current(pod) {
            return;
        }
        if !self.busy.lock().insert(pod.full_name()) {
            return;
        }
        let (mirrors, pod, statuses) = (self.clone(), pod.clone(), statuses.clone());
        copepod_supervisor::spawn("mirror pod", async move {
            // A fresh cluster lacks the namespace and the priority class for a moment. What lasts longer is for the next
            // sync, which also knows whether the pod is still there.
            for attempt in 0..TRIES {
                if mirrors.ensure(&pod).await {
                    statuses.rewrite(pod.uid());
                }
                if mirrors.is_current(&pod) {
                    break;
                }
                tokio::time::sleep(FIRST_PAUSE * (1 << attempt)).await;
            }
            mirrors.busy.lock().remove(&pod.full_name());
        });
    }

    fn is_current(&self, pod: &Pod) -> bool {
        let hash = pod.annotation(CONFIG_HASH).unwrap_or_default();
        self.known.read().get(&pod.full_name()).is_some_and(|m| m.hash == hash && !m.deleted)
    }

    /// Makes the mirror of a static pod fit it: created when missing, replaced when stale. True when a new one was
    /// made.
    pub async fn ensure(&self, pod: &Pod) -> bool {
        if pod.annotation(CONFIG_SOURCE) != Some("file") {
            return false;
        }
        let hash = pod.annotation(CONFIG_HASH).unwrap_or_default();
        let known = self.known.read().get(&pod.full_name()).cloned();
        match known {
            Some(mirror) if mirror.hash == hash && !mirror.deleted => return false,
            Some(mirror) if !self.delete(pod, &mirror.uid).await => return false,
            _ => {}
        }
        let Some(owner) = self.owner().await else { return false };
        let object = render_mirror(pod, hash, &self.node, owner);
        match self.client.create::<Value>(&PODS.collection(pod.namespace()), &object).await {
            Ok(created) => {
                let uid = created["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                let mirror = Mirror { uid, hash: hash.to_owned(), deleted: false };
                self.known.write().insert(pod.full_name(), mirror);
                tracing::info!(pod = pod.full_name(), "mirror pod created");
                true
            }
            Err(error) if error.is_already_exists() => false,
            Err(error) => {
                // Perhaps the node was made anew and has another UID.
                *self.node_uid.write() = None;
                tracing::debug!(pod = pod.full_name(), error = %copepod_client::chain(&error), "mirror pod not created");
                false
            }
        }
    }

    /// Deletes the mirror of a static pod that is gone.
    pub async fn remove(&self, pod: &Pod) {
        let known = self.known.read().get(&pod.full_name()).cloned();
        if let Some(mirror) = known.filter(|m| m.hash == pod.annotation(CONFIG_HASH).unwrap_or_default()) {
            self.delete(pod, &mirror.uid).await;
        }
    }

    /// Deletes the mirror called `namespace`/`name`, whatever its hash.
    pub async fn remove_named(&self, namespace: &str, name: &str) {
        if let Some(uid) = self.uid(namespace, name) {
            let mut pod = Pod::default();
            pod.metadata.name = Some(name.to_owned());
            pod.metadata.namespace = Some(namespace.to_owned());
            self.delete(&pod, &uid).await;
        }
    }

    async fn delete(&self, pod: &Pod, uid: &str) -> bool {
        let target = PODS.object(pod.namespace(), pod.name());
        match self.client.delete(&target, &DeleteOptions::uid(uid).grace(0)).await {
            Err(error) if !(error.not_found() || error.conflict()) => {
                tracing::warn!(pod = pod.full_name(), error = %copepod_client::chain(&error), "mirror pod not deleted");
                return false;
            }
            _ => {}
        }
        self.known.write().remove(&pod.full_name());
        true
    }

    /// The node as owner; `None` while it is not registered.
    async fn owner(&self) -> Option<OwnerReference> {
        let known = self.node_uid.read().clone();
        let uid = match known {
            Some(uid) => uid,
            None => {
                let node: Value = self.client.get(&NODES.object("", &self.node)).await.ok()?;
                let uid = node["metadata"]["uid"].as_str()?.to_owned();
                *self.node_uid.write() = Some(uid.clone());
                uid
            }
        };
        Some(OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.node.clone(),
            uid,
            controller: Some(true),
            block_owner_deletion: None,
        })
    }
}

/// The object to create.
fn render_mirror(pod: &Pod, hash: &str, node: &str, owner: OwnerReference) -> Pod {
    let mut mirror = pod.clone();
    let meta = &mut mirror.metadata;
    meta.uid = None;
    meta.resource_version = None;
    meta.owner_references = Some(vec![owner]);
    meta.annotations.get_or_insert_with(Default::default).insert(CONFIG_MIRROR.to_owned(), hash.to_owned());
    mirror.status = None;
    if let Some(spec) = mirror.spec.as_mut() {
        spec.node_name = Some(node.to_owned());
    }
    mirror
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirror_carries_hash_and_owner() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "etcd-n", "namespace": "kube-system", "uid": "h",
                "annotations": {"kubernetes.io/config.hash": "h", "kubernetes.io/config.source": "file"}},
            "spec": {"containers": []}
        }))
        .unwrap();
        let mirror =
            render_mirror(&pod, "h", "n", OwnerReference { name: "n".to_owned(), ..Default::default() });
        assert!(mirror.is_mirror() && mirror.metadata.uid.is_none());
        assert_eq!(mirror.annotation(CONFIG_MIRROR), Some("h"));
        assert_eq!(mirror.metadata.owner_references.unwrap()[0].name, "n");
    }
}
