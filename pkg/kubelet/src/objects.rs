//! The API objects that pods refer to: config maps, secrets, tokens, claims.
//!
//! A config map or secret is watched, by name, for as long as a pod on this node refers to it (upstream's default
//! manager does the same), so that a change reaches its volume at once and the Node authorizer's rule, which allows
//! exactly those names, is enough. Nothing else of its kind is held in memory.

mod credential;
mod token;
mod trust;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use copepod_client::{Client, Informer, InformerConfig, OptionalExt, ResourceRef, resources};
use copepod_volume::{BoxFuture, Credential, ObjectSource, TokenRequest, VolumeError};
use k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod,
    PodCertificateProjection, Secret,
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use self::credential::Credentials;
use self::token::TokenCache;
use self::trust::TrustBundles;
use crate::ports::EventSink;

/// How long a container start waits for the first answer about an object.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// Called with a pod's UID when something it is made from has changed.
pub(crate) type Wake = Arc<dyn Fn(&str) + Send + Sync>;

/// Which kind of object is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

/// One object a pod refers to.
pub type Reference = (ObjectKind, String, String);

#[derive(Debug)]
enum Watched {
    ConfigMap(Informer<ConfigMap>),
    Secret(Informer<Secret>),
}

#[derive(Debug)]
struct Entry {
    watched: Watched,
    stop: CancellationToken,
    users: BTreeSet<String>,
}

/// The objects of all pods on this node.
pub struct ApiObjects {
    client: Client,
    entries: Mutex<HashMap<Reference, Entry>>,
    tokens: TokenCache,
    trust: Arc<TrustBundles>,
    credentials: Credentials,
    wake: Wake,
}

impl std::fmt::Debug for ApiObjects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiObjects").field("entries", &self.entries.lock().len()).finish_non_exhaustive()
    }
}

impl ApiObjects {
    /// Objects read with `client`; `wake` is called with a pod's UID when something it refers to has changed.
    /// `node` is the name of our Node object.
    pub fn new(
        client: Client,
        node: &str,
        events: Arc<dyn EventSink>,
        wake: impl Fn(&str) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let wake: Wake = Arc::new(wake);
        Arc::new(Self {
            tokens: TokenCache::new(client.clone()),
            trust: Arc::new(TrustBundles::new(client.clone(), wake.clone())),
            credentials: Credentials::new(client.clone(), node, events, wake.clone()),
            client,
            entries: Mutex::default(),
            wake,
        })
    }

    /// Says what the pod refers to now; what no pod refers to any more is no longer watched.
    pub fn track(self: &Arc<Self>, uid: &str, references: &BTreeSet<Reference>) {
        let mut entries = self.entries.lock();
        for reference in references {
            let entry = entries.entry(reference.clone()).or_insert_with(|| self.follow(reference));
            entry.users.insert(uid.to_owned());
        }
        entries.retain(|reference, entry| {
            if !references.contains(reference) {
                entry.users.remove(uid);
            }
            let used = !entry.users.is_empty();
            if !used {
                entry.stop.cancel();
            }
            used
        });
    }

    /// The pod is gone.
    pub fn forget(self: &Arc<Self>, uid: &str) {
        self.track(uid, &BTreeSet::new());
        self.tokens.forget(uid);
        self.trust.forget(uid);
        self.credentials.forget(uid);
    }

    fn follow(self: &Arc<Self>, reference: &Reference) -> Entry {
        let stop = CancellationToken::new();
        let watched = match reference.0 {
            ObjectKind::ConfigMap => {
                Watched::ConfigMap(self.informer(resources::CONFIG_MAPS, reference, &stop))
            }
            ObjectKind::Secret => Watched::Secret(self.informer(resources::SECRETS, reference, &stop)),
        };
        Entry { watched, stop, users: BTreeSet::new() }
    }

    fn informer<T>(
        self: &Arc<Self>,
        resource: ResourceRef,
        reference: &Reference,
        stop: &CancellationToken,
    ) -> Informer<T>
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        let config = InformerConfig::all(resource)
            .namespace(&reference.1)
            .fields(format!("metadata.name={}", reference.2));
        let informer = Informer::new(config);
        let (objects, reference) = (Arc::downgrade(self), reference.clone());
        informer.on_change(move |_, _| {
            if let Some(objects) = objects.upgrade() {
                objects.wake_users(&reference);
            }
        });
        informer.start(&self.client, stop);
        informer
    }

    fn wake_users(&self, reference: &Reference) {
        let users = self.entries.lock().get(reference).map(|entry| entry.users.clone());
        for uid in users.iter().flatten() {
            (self.wake)(uid);
        }
    }

    fn watched<T>(
        &self,
        reference: &Reference,
        pick: impl Fn(&Watched) -> Option<&Informer<T>>,
    ) -> Option<Informer<T>> {
        self.entries.lock().get(reference).and_then(|entry| pick(&entry.watched)).cloned()
    }

    /// From the watch where there is one, otherwise asked for once.
    async fn read<T>(
        &self,
        reference: Reference,
        resource: ResourceRef,
        kind: &'static str,
        pick: impl Fn(&Watched) -> Option<&Informer<T>>,
    ) -> Result<T, VolumeError>
    where
        T: DeserializeOwned + Clone + Send + Sync + 'static,
    {
        let (_, namespace, name) = &reference;
        let missing = || VolumeError::NotFound(kind, name.clone());
        if let Some(informer) = self.watched(&reference, pick) {
            tokio::time::timeout(FIRST_ANSWER, informer.synced()).await.map_err(|_| {
                VolumeError::Api(format!("failed to sync {kind} cache: timed out waiting for the condition"))
            })?;
            return informer.get(namespace, name).map(|object| (*object).clone()).ok_or_else(missing);
        }
        let found = self.client.get::<T>(&resource.object(namespace, name)).await.optional();
        found.map_err(|e| VolumeError::Api(copepod_client::chain(&e)))?.ok_or_else(missing)
    }

    async fn claim_path(&self, namespace: &str, name: &str) -> Result<String, VolumeError> {
        let api = |e: copepod_client::ClientError| VolumeError::Api(copepod_client::chain(&e));
        let claim: PersistentVolumeClaim = self
            .client
            .get(&resources::PERSISTENT_VOLUME_CLAIMS.object(namespace, name))
            .await
            .optional()
            .map_err(api)?
            .ok_or_else(|| VolumeError::NotFound("persistentvolumeclaim", name.to_owned()))?;
        let volume = claim.spec.as_ref().and_then(|s| s.volume_name.clone()).filter(|v| !v.is_empty());
        let bound = claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound");
        let Some(volume) = volume.filter(|_| bound) else {
            return Err(VolumeError::Api(format!("PVC {namespace}/{name} is not bound")));
        };
        let volume: PersistentVolume =
            self.client.get(&resources::PERSISTENT_VOLUMES.object("", &volume)).await.map_err(api)?;
        let spec = volume.spec.unwrap_or_default();
        let local = spec.local.map(|l| l.path).or_else(|| spec.host_path.map(|h| h.path));
        local.ok_or_else(|| {
            VolumeError::Unsupported("persistentVolumeClaim of other than hostPath or local".to_owned())
        })
    }
}

impl ObjectSource for ApiObjects {
    fn config_map<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<ConfigMap, VolumeError>> {
        let reference = (ObjectKind::ConfigMap, namespace.to_owned(), name.to_owned());
        Box::pin(self.read(reference, resources::CONFIG_MAPS, "configmap", |watched| match watched {
            Watched::ConfigMap(informer) => Some(informer),
            Watched::Secret(_) => None,
        }))
    }

    fn secret<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Result<Secret, VolumeError>> {
        let reference = (ObjectKind::Secret, namespace.to_owned(), name.to_owned());
        Box::pin(self.read(reference, resources::SECRETS, "secret", |watched| match watched {
            Watched::Secret(informer) => Some(informer),
            Watched::ConfigMap(_) => None,
        }))
    }

    fn token<'a>(
        &'a self,
        pod: &'a Pod,
        request: &'a TokenRequest,
    ) -> BoxFuture<'a, Result<String, VolumeError>> {
        Box::pin(self.tokens.get(pod, request))
    }

    fn claim<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Result<String, VolumeError>> {
        Box::pin(self.claim_path(namespace, name))
    }

    fn trust_anchors<'a>(
        &'a self,
        pod: &'a Pod,
        wanted: &'a ClusterTrustBundleProjection,
    ) -> BoxFuture<'a, Result<String, VolumeError>> {
        Box::pin(self.trust.anchors(pod.metadata.uid.as_deref().unwrap_or_default(), wanted))
    }

    fn credential<'a>(
        &'a self,
        pod: &'a Pod,
        place: (&'a str, usize),
        wanted: &'a PodCertificateProjection,
    ) -> BoxFuture<'a, Result<Credential, VolumeError>> {
        Box::pin(self.credentials.get(pod, place, wanted))
    }
}

/// The source of a kubelet without an API server: static pods may not refer to API objects.
#[derive(Debug, Clone, Copy)]
pub struct NoObjects;

fn standalone<T: Send + 'static>() -> BoxFuture<'static, Result<T, VolumeError>> {
    Box::pin(async { Err(VolumeError::Api("no API server is configured".to_owned())) })
}

impl ObjectSource for NoObjects {
    fn config_map<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<ConfigMap, VolumeError>> {
        standalone()
    }

    fn secret<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<Secret, VolumeError>> {
        standalone()
    }

    fn token<'a>(&'a self, _: &'a Pod, _: &'a TokenRequest) -> BoxFuture<'a, Result<String, VolumeError>> {
        standalone()
    }

    fn claim<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<String, VolumeError>> {
        standalone()
    }
}

/// Every config map and secret a pod refers to, by volumes and by variables.
#[must_use]
pub fn references(pod: &Pod) -> BTreeSet<Reference> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let mut found = BTreeSet::new();
    let mut add = |kind, name: Option<&str>| {
        if let Some(name) = name.filter(|n| !n.is_empty()) {
            found.insert((kind, namespace.clone(), name.to_owned()));
        }
    };
    let Some(spec) = &pod.spec else { return found };
    for volume in spec.volumes.iter().flatten() {
        add(ObjectKind::ConfigMap, volume.config_map.as_ref().map(|c| c.name.as_str()));
        add(ObjectKind::Secret, volume.secret.as_ref().and_then(|s| s.secret_name.as_deref()));
        for projection in volume.projected.iter().filter_map(|p| p.sources.as_ref()).flatten() {
            add(ObjectKind::ConfigMap, projection.config_map.as_ref().map(|c| c.name.as_str()));
            add(ObjectKind::Secret, projection.secret.as_ref().map(|s| s.name.as_str()));
        }
    }
    for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
        for from in container.env_from.iter().flatten() {
            add(ObjectKind::ConfigMap, from.config_map_ref.as_ref().map(|r| r.name.as_str()));
            add(ObjectKind::Secret, from.secret_ref.as_ref().map(|r| r.name.as_str()));
        }
        for value in container.env.iter().flatten().filter_map(|e| e.value_from.as_ref()) {
            add(ObjectKind::ConfigMap, value.config_map_key_ref.as_ref().map(|r| r.name.as_str()));
            add(ObjectKind::Secret, value.secret_key_ref.as_ref().map(|r| r.name.as_str()));
        }
    }
    for secret in spec.image_pull_secrets.iter().flatten() {
        add(ObjectKind::Secret, Some(&secret.name));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_way_to_refer_to_an_object_is_found() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "d"},
            "spec": {
                "imagePullSecrets": [{"name": "pull"}],
                "volumes": [{"name": "a", "configMap": {"name": "cm"}}, {"name": "b", "secret": {"secretName": "s"}},
                    {"name": "c", "projected": {"sources": [{"configMap": {"name": "root"}}]}}],
                "containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "from"}}],
                    "env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "key", "key": "k"}}}]}],
            }
        }))
        .unwrap();
        let names: Vec<String> = references(&pod).into_iter().map(|(_, _, name)| name).collect();
        assert_eq!(names, ["cm", "key", "root", "from", "pull", "s"]);
    }
}
