//! Volumes: which claims a pod waits for, on which nodes its volumes can be reached, and which free ones it could get.

use std::collections::BTreeMap;
use std::sync::Arc;

use copepod_client::resources::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES};
use copepod_client::{Client, ClientError, Informer, InformerConfig};
use copepod_storage::{BOUND_BY_CONTROLLER, Claim, PersistentVolume, SELECTED_NODE, StorageClass, best};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::filter::{Feasibility, Refusal};
use crate::node::Node;
use crate::pod::Pod;
use crate::selector::NodeSelector;
use crate::snapshot::Snapshot;

/// The provisioner of classes whose volumes people make.
const NOBODY: &str = "kubernetes.io/no-provisioner";
const LOST: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
const ELSEWHERE: &str = "node(s) didn't match PersistentVolume's node affinity";
const NONE_FREE: &str = "node(s) didn't find available persistent volumes to bind";
const IN_USE: &str =
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode";

/// Claims, volumes and classes as the API server has them.
#[derive(Debug)]
pub(crate) struct Claims {
    claims: Informer<Claim>,
    volumes: Informer<PersistentVolume>,
    classes: Informer<StorageClass>,
}

/// What a pod's claims ask of a node.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Volumes that are bound already.
    bound: Vec<Arc<PersistentVolume>>,
    /// A bound volume does not exist.
    lost: bool,
    /// Claims that wait for the pod's node, the smallest first, with their classes.
    waiting: Vec<(Arc<Claim>, Arc<StorageClass>)>,
    /// All volumes, when a claim waits.
    volumes: Vec<Arc<PersistentVolume>>,
    /// Claims that only one pod may use.
    exclusive: Vec<String>,
}

/// What a waiting claim would get on a node.
#[derive(Debug)]
enum Choice {
    Bind(Arc<Claim>, Arc<PersistentVolume>),
    Provision(Arc<Claim>),
}

#[derive(Deserialize)]
struct Affinity {
    required: Option<NodeSelector>,
}

fn reachable(volume: &PersistentVolume, node: &Node) -> bool {
    let affinity = serde_json::from_value::<Affinity>(volume.spec.node_affinity.clone());
    let required = affinity.ok().and_then(|affinity| affinity.required);
    required.is_none_or(|r| r.node_selector_terms.iter().any(|t| t.matches(&node.name, &node.labels)))
}

/// Whether a class lets volumes be made on a node.
fn allowed(class: &StorageClass, node: &Node) -> bool {
    let Some(terms) = class.allowed_topologies.as_array().filter(|terms| !terms.is_empty()) else {
        return true;
    };
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let holds = |expression: &Value| {
        let label = expression["key"].as_str().and_then(|key| node.labels.get(key));
        label.is_some_and(|label| list(expression, "values").iter().any(|v| v.as_str() == Some(label)))
    };
    terms.iter().any(|term| list(term, "matchLabelExpressions").iter().all(holds))
}

impl Wanted {
    /// Moves nodes that the volumes cannot be had on to the refused ones.
    pub(crate) fn filter(&self, pod: &Pod, snapshot: &Snapshot, answer: &mut Feasibility) {
        let mut refused = BTreeMap::new();
        answer.fits.retain(|node| {
            let refusal = self.refusal(pod, snapshot, node);
            let fits = refusal.is_none();
            refused.extend(refusal.map(|refusal| (node.name.clone(), refusal)));
            fits
        });
        answer.refused.extend(refused);
    }

    fn refusal(&self, pod: &Pod, snapshot: &Snapshot, node: &Node) -> Option<Refusal> {
        let others = snapshot.node(&node.name).into_iter().flat_map(|info| &info.pods);
        let taken = others
            .filter(|other| other.key.namespace == pod.key.namespace && other.uid != pod.uid)
            .any(|other| self.exclusive.iter().any(|claim| other.claims.contains(claim)));
        if taken {
            return Some(Refusal { reasons: vec![IN_USE.to_owned()], resolvable: true });
        }
        let mut reasons = Vec::new();
        if self.lost {
            reasons.push(LOST.to_owned());
        }
        if !self.bound.iter().all(|volume| reachable(volume, node)) {
            reasons.push(ELSEWHERE.to_owned());
        }
        if self.choose(node).is_none() {
            reasons.push(NONE_FREE.to_owned());
        }
        (!reasons.is_empty()).then_some(Refusal { reasons, resolvable: false })
    }

    /// What each waiting claim would get on a node; `None` when one would get nothing.
    fn choose(&self, node: &Node) -> Option<Vec<Choice>> {
        let mut taken: Vec<String> = Vec::new();
        let mut choices = Vec::new();
        for (claim, class) in &self.waiting {
            let selected = claim.metadata.annotation(SELECTED_NODE);
            if selected.is_some_and(|selected| *selected != *node.name) {
                return None;
            }
            let free = |volume: &PersistentVolume| !taken.contains(&volume.metadata.name);
            let found = if selected.is_some() {
                None
            } else {
                best(claim, &self.volumes, free, |volume| reachable(volume, node))
            };
            if let Some(volume) = found {
                taken.push(volume.metadata.name.clone());
                choices.push(Choice::Bind(Arc::clone(claim), volume));
            } else if matches!(&*class.provisioner, "" | NOBODY) || !allowed(class, node) {
                return None;
            } else {
                choices.push(Choice::Provision(Arc::clone(claim)));
            }
        }
        Some(choices)
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
                let coming = pod.ephemeral.contains(name);
                let text = format!("persistentvolumeclaim {name:?}");
                return Err(if coming {
                    format!("waiting for ephemeral volume controller to create the {text}")
                } else {
                    format!("{text} not found")
                });
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
            if claim.spec.access_modes.iter().any(|mode| &**mode == "ReadWriteOncePod") {
                wanted.exclusive.push(name.clone());
            }
            if !claim.spec.volume_name.is_empty() {
                match self.volumes.get("", &claim.spec.volume_name) {
                    Some(volume) => wanted.bound.push(volume),
                    None => wanted.lost = true,
                }
                continue;
            }
            match self.classes.get("", claim.class()).filter(|class| class.waits()) {
                Some(class) => wanted.waiting.push((claim, class)),
                None => return Err("pod has unbound immediate PersistentVolumeClaims".to_owned()),
            }
        }
        if !wanted.waiting.is_empty() {
            wanted.waiting.sort_by_key(|(claim, _)| claim.size());
            wanted.volumes = self.volumes.list();
        }
        Ok(wanted)
    }

    /// Binds free volumes to claims that wait for the pod's node, and names the node to the provisioners of the others.
    /// Whether all claims are bound; if not, the pod has to come back when they are.
    pub(crate) async fn prepare(&self, client: &Client, pod: &Pod, node: &Node) -> Result<bool, ClientError> {
        let Ok(wanted) = self.check(pod) else { return Ok(false) };
        let Some(choices) = wanted.choose(node) else { return Ok(false) };
        let settled = |name: &String| {
            let claim = self.claims.get(&pod.key.namespace, name);
            claim.is_some_and(|c| !c.spec.volume_name.is_empty() && &*c.status.phase == "Bound")
        };
        let bound = choices.is_empty() && pod.claims.iter().all(settled);
        for choice in choices {
            match choice {
                Choice::Bind(claim, volume) => reserve(client, &claim, &volume).await?,
                Choice::Provision(claim) if claim.metadata.annotation(SELECTED_NODE).is_none() => {
                    let patch = json!({"metadata": {"annotations": {SELECTED_NODE: *node.name}}});
                    let key = claim.metadata.key();
                    client.merge_and_update(client, &PERSISTENT_VOLUME_CLAIMS, &key, "", &patch).await?;
                }
                Choice::Provision(_) => {}
            }
        }
        Ok(bound)
    }
}

/// Takes a volume for a claim; the volume binder completes it.
async fn reserve(client: &Client, claim: &Claim, volume: &PersistentVolume) -> Result<(), ClientError> {
    let (owner, meta) = (&claim.metadata, &volume.metadata);
    if volume.spec.claim_ref.as_ref().is_some_and(|reference| reference.uid == owner.uid) {
        return Ok(());
    }
    let reference = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": owner.namespace, "name": owner.name,
        "uid": owner.uid, "resourceVersion": owner.resource_version,
    });
    let mut body =
        json!({"metadata": {"resourceVersion": meta.resource_version}, "spec": {"claimRef": reference}});
    if !volume.belongs_to(claim) {
        body["metadata"]["annotations"] = json!({BOUND_BY_CONTROLLER: "yes"});
    }
    client.merge_and_update(client, &PERSISTENT_VOLUMES, &meta.key(), "", &body).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> Node {
        let labels = json!({"kubernetes.io/hostname": name});
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
    }

    fn local(name: &str, node: &str) -> Arc<PersistentVolume> {
        let term = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]});
        let body = json!({
            "metadata": {"name": name}, "status": {"phase": "Available"},
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": "local",
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}},
        });
        Arc::new(serde_json::from_value(body).unwrap())
    }

    fn waiting(provisioner: &str) -> (Arc<Claim>, Arc<StorageClass>) {
        let claim = json!({
            "metadata": {"name": "c", "namespace": "ns", "uid": "u"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "local",
                "resources": {"requests": {"storage": "1Gi"}}},
        });
        let class = json!({
            "metadata": {"name": "local"}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"});
        (Arc::new(serde_json::from_value(claim).unwrap()), Arc::new(serde_json::from_value(class).unwrap()))
    }

    #[test]
    fn a_free_volume_of_the_node_is_taken_or_one_is_made() {
        let wanted = |provisioner: &str| Wanted {
            waiting: vec![waiting(provisioner)],
            volumes: vec![local("on-a", "a")],
            ..Wanted::default()
        };
        let choice = |provisioner: &str, at: &str| match wanted(provisioner).choose(&node(at)).as_deref() {
            Some([Choice::Bind(_, volume)]) => volume.metadata.name.clone(),
            Some([Choice::Provision(_)]) => "made".to_owned(),
            _ => "nothing".to_owned(),
        };
        assert_eq!(choice(NOBODY, "a"), "on-a");
        assert_eq!(choice(NOBODY, "b"), "nothing");
        assert_eq!(choice("example.com/disk", "b"), "made");
        let refusal = wanted(NOBODY).refusal(&Pod::default(), &Snapshot::default(), &node("b")).unwrap();
        assert_eq!(refusal.reasons, [NONE_FREE]);
    }
}
