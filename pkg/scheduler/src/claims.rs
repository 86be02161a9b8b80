//! Volumes: which claims a pod waits for, and on which nodes its bound volumes can be reached.

use std::collections::BTreeMap;

use copepod_client::resources::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES};
use copepod_client::{Client, ClientError, Informer, InformerConfig, Meta};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

use crate::filter::{Feasibility, Refusal};
use crate::pod::Pod;
use crate::selector::NodeSelector;

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

#[derive(Debug, Deserialize)]
struct Claim {
    metadata: Meta,
    #[serde(default)]
    spec: ClaimSpec,
    #[serde(default)]
    status: ClaimStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSpec {
    volume_name: String,
    storage_class_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimStatus {
    phase: Box<str>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Class {
    #[serde(default)]
    volume_binding_mode: Box<str>,
}

#[derive(Debug, Deserialize)]
struct Volume {
    #[serde(default)]
    spec: VolumeSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeSpec {
    node_affinity: Option<Required>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Required {
    required: Option<NodeSelector>,
}

/// Claims, volumes and classes as the API server has them.
#[derive(Debug)]
pub(crate) struct Claims {
    claims: Informer<Claim>,
    volumes: Informer<Volume>,
    classes: Informer<Class>,
}

/// What a pod's claims ask of a node.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    affinities: Vec<Arc<Volume>>,
}

impl Wanted {
    /// Moves nodes that the volumes cannot be reached from to the refused ones.
    pub(crate) fn filter(&self, answer: &mut Feasibility) {
        let mut refused = BTreeMap::new();
        answer.fits.retain(|node| {
            let reached = self.affinities.iter().all(|volume| {
                let required = volume.spec.node_affinity.as_ref().and_then(|a| a.required.as_ref());
                required
                    .is_none_or(|r| r.node_selector_terms.iter().any(|t| t.matches(&node.name, &node.labels)))
            });
            if !reached {
                let reason = "node(s) didn't match PersistentVolume's node affinity".to_owned();
                refused.insert(node.name.clone(), Refusal { reasons: vec![reason], resolvable: false });
            }
            reached
        });
        answer.refused.extend(refused);
    }
}

impl Claims {
    pub(crate) fn new() -> Self {
        Self {
            claims: Informer::new(InformerConfig::all(PERSISTENT_VOLUME_CLAIMS)),
            volumes: Informer::new(InformerConfig::all(PERSISTENT_VOLUMES)),
            classes: Informer::new(InformerConfig::all(STORAGE_CLASSES)),
        }
    }

    pub(crate) fn start(&self, client: &Client, stop: &CancellationToken) {
        self.claims.start(client, stop);
        self.volumes.start(client, stop);
        self.classes.start(client, stop);
    }

    pub(crate) async fn synced(&self) {
        tokio::join!(self.claims.synced(), self.volumes.synced(), self.classes.synced());
    }

    pub(crate) fn on_change(&self, wake: impl Fn() + Send + Sync + Clone + 'static) {
        let (a, b, c) = (wake.clone(), wake.clone(), wake);
        self.claims.on_change(move |_, _| a());
        self.volumes.on_change(move |_, _| b());
        self.classes.on_change(move |_, _| c());
    }

    /// What the pod's claims ask for.
    ///
    /// # Errors
    /// Upstream's text when the pod cannot be placed anywhere because of a claim.
    pub(crate) fn check(&self, pod: &Pod) -> Result<Wanted, String> {
        let mut wanted = Wanted::default();
        for name in &pod.claims {
            let Some(claim) = self.claims.get(&pod.key.namespace, name) else {
                return Err(format!("persistentvolumeclaim {name:?} not found"));
            };
            if &*claim.status.phase == "Lost" {
                return Err(format!(
                    "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {:?}",
                    claim.spec.volume_name
                ));
            }
            if claim.metadata.deleting() {
                return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
            }
            if !claim.spec.volume_name.is_empty() {
                let Some(volume) = self.volumes.get("", &claim.spec.volume_name) else {
                    return Err("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
                        .to_owned());
                };
                wanted.affinities.push(volume);
            } else if !self.waits_for_consumer(&claim) {
                return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
            }
        }
        Ok(wanted)
    }

    fn waits_for_consumer(&self, claim: &Claim) -> bool {
        let class = claim.spec.storage_class_name.as_deref().and_then(|name| self.classes.get("", name));
        class.is_some_and(|c| &*c.volume_binding_mode == "WaitForFirstConsumer")
    }

    /// Names the node to the provisioners of claims that wait for it. Whether all claims are bound; if not, the pod
    /// has to come back when they are.
    pub(crate) async fn prepare(&self, client: &Client, pod: &Pod, node: &str) -> Result<bool, ClientError> {
        let mut bound = true;
        for name in &pod.claims {
            let Some(claim) = self.claims.get(&pod.key.namespace, name) else { continue };
            if !claim.spec.volume_name.is_empty() && &*claim.status.phase == "Bound" {
                continue;
            }
            bound = false;
            if claim.metadata.annotation(SELECTED_NODE) != Some(node) && claim.spec.volume_name.is_empty() {
                let patch = json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
                let key = claim.metadata.key();
                client.merge_and_update(client, &PERSISTENT_VOLUME_CLAIMS, &key, "", &patch).await?;
            }
        }
        Ok(bound)
    }
}
