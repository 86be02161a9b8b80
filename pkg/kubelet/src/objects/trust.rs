//! Trust anchors for volumes: the contents of ClusterTrustBundles, by name or by signer and labels.
//!
//! The bundles are followed only while a pod of this node projects them.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use copepod_api::LabelSelector;
use copepod_api::field::quote;
use copepod_client::{Client, Informer, InformerConfig, Meta, resources};
use copepod_volume::VolumeError;
use k8s_openapi::api::core::v1::ClusterTrustBundleProjection;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::{FIRST_ANSWER, Wake};

/// What is read of a bundle.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Bundle {
    metadata: Meta,
    spec: BundleSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BundleSpec {
    signer_name: String,
    trust_bundle: String,
}

#[derive(Debug)]
struct Followed {
    informer: Informer<Bundle>,
    stop: CancellationToken,
    users: BTreeSet<String>,
}

/// The bundles of the cluster while somebody needs them.
pub(super) struct TrustBundles {
    client: Client,
    wake: Wake,
    followed: Mutex<Option<Followed>>,
    /// Gives anchors an order that holds as long as this process and that nobody can come to rely on.
    order: RandomState,
}

impl TrustBundles {
    pub(super) fn new(client: Client, wake: Wake) -> Self {
        Self { client, wake, followed: Mutex::default(), order: RandomState::new() }
    }

    /// The pod is gone; with the last one the bundles are no longer followed.
    pub(super) fn forget(&self, uid: &str) {
        let mut followed = self.followed.lock();
        let unused = followed.as_mut().is_some_and(|f| f.users.remove(uid) && f.users.is_empty());
        if unused && let Some(last) = followed.take() {
            last.stop.cancel();
        }
    }

    fn informer(self: &Arc<Self>, uid: &str) -> Informer<Bundle> {
        let mut followed = self.followed.lock();
        let followed = followed.get_or_insert_with(|| self.follow());
        followed.users.insert(uid.to_owned());
        followed.informer.clone()
    }

    /// Follows the bundles; each change wakes every pod that projects some.
    fn follow(self: &Arc<Self>) -> Followed {
        let informer = Informer::new(InformerConfig::all(resources::CLUSTER_TRUST_BUNDLES));
        let bundles = Arc::downgrade(self);
        informer.on_change(move |_, _| {
            let Some(bundles) = bundles.upgrade() else { return };
            let users = bundles.followed.lock().as_ref().map(|f| f.users.clone());
            for uid in users.iter().flatten() {
                (bundles.wake)(uid);
            }
        });
        let stop = CancellationToken::new();
        informer.start(&self.client, &stop);
        Followed { informer, stop, users: BTreeSet::new() }
    }

    pub(super) async fn anchors(
        self: &Arc<Self>,
        uid: &str,
        wanted: &ClusterTrustBundleProjection,
    ) -> Result<String, VolumeError> {
        let informer = self.informer(uid);
        tokio::time::timeout(FIRST_ANSWER, informer.synced())
            .await
            .map_err(|_| VolumeError::Api("ClusterTrustBundle informer has not yet synced".to_owned()))?;
        let bundles = informer.list();
        let chosen = select(bundles.iter().map(AsRef::as_ref), wanted)?;
        Ok(self.normalise(&chosen))
    }

    /// The certificates of all bundles, each once, without what stands around them.
    fn normalise(&self, bundles: &[&Bundle]) -> String {
        let all = bundles.iter().flat_map(|b| copepod_pki::decode_blocks(&b.spec.trust_bundle));
        let mut anchors: Vec<Vec<u8>> = all.collect::<BTreeSet<_>>().into_iter().collect();
        anchors.sort_by_key(|der| self.order.hash_one(der));
        copepod_pki::encode_certificates(&anchors)
    }
}

/// The bundles a projection means; none is an error unless it is optional.
fn select<'a>(
    mut bundles: impl Iterator<Item = &'a Bundle>,
    wanted: &ClusterTrustBundleProjection,
) -> Result<Vec<&'a Bundle>, VolumeError> {
    let error = |text: String| Err(VolumeError::Api(text));
    let optional = wanted.optional == Some(true);
    if let Some(name) = &wanted.name {
        return match bundles.find(|b| b.metadata.name == *name) {
            Some(bundle) => Ok(vec![bundle]),
            None if optional => Ok(Vec::new()),
            None => error(format!(
                "while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io {} not found",
                quote(name)
            )),
        };
    }
    let Some(signer) = &wanted.signer_name else {
        return error(
            "ClusterTrustBundle projection requires either name or signerName to be set".to_owned(),
        );
    };
    let selector = serde_json::to_value(&wanted.label_selector).unwrap_or_default();
    let selector = LabelSelector::from_object(Some(&selector))
        .map_err(|e| VolumeError::Api(format!("while parsing label selector: {e}")))?;
    let of_signer = bundles.filter(|b| b.spec.signer_name == *signer);
    let chosen: Vec<_> = of_signer.filter(|b| selector.matches(&b.metadata.labels)).collect();
    if chosen.is_empty() && !optional {
        return error(
            "combination of signerName and labelSelector matched zero ClusterTrustBundles".to_owned(),
        );
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bundles() -> Vec<Bundle> {
        let bundle = |name: &str, signer: &str, alive: &str| {
            serde_json::from_value(json!({
                "metadata": {"name": name, "labels": {"alive": alive}},
                "spec": {"signerName": signer, "trustBundle": ""}
            }))
            .unwrap()
        };
        vec![bundle("a", "x/one", "true"), bundle("b", "x/one", "false"), bundle("c", "", "true")]
    }

    #[test]
    fn bundles_are_chosen_by_name_or_by_signer_and_labels() {
        let all = bundles();
        let names = |wanted: serde_json::Value| {
            let wanted: ClusterTrustBundleProjection = serde_json::from_value(wanted).unwrap();
            select(all.iter(), &wanted)
                .map(|found| found.iter().map(|b| b.metadata.name.clone()).collect::<Vec<_>>().join(" "))
                .map_err(|e| e.to_string())
        };
        assert_eq!(names(json!({"path": "p", "name": "c"})).unwrap(), "c");
        assert_eq!(
            names(json!({"path": "p", "name": "z"})).unwrap_err(),
            "while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io \"z\" not found"
        );
        assert_eq!(names(json!({"path": "p", "name": "z", "optional": true})).unwrap(), "");
        let signer = |selector| json!({"path": "p", "signerName": "x/one", "labelSelector": selector});
        assert_eq!(
            names(signer(json!({}))).unwrap(),
            "a b",
            "an empty selector is every bundle of the signer"
        );
        assert_eq!(names(signer(json!({"matchLabels": {"alive": "false"}}))).unwrap(), "b");
        assert!(names(signer(json!(null))).unwrap_err().contains("matched zero"), "none is nothing");
    }
}
