//! Every namespace has a ConfigMap `kube-root-ca.crt` with the authority pods verify the API server by.

use copepod_client::resources::CONFIG_MAPS;
use copepod_client::{Informer, InformerConfig, Meta, ObjectKey, Outcome, WorkQueue};
use serde::Deserialize;
use serde_json::json;

use crate::context::{Context, SyncResult, enqueue};
use crate::service_account::tolerate_race;
use crate::step::{Step, execute};

const NAME: &str = "kube-root-ca.crt";
const KEY: &str = "ca.crt";
const NOTE: (&str, &str) = (
    "kubernetes.io/description",
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.",
);

#[derive(Debug, Deserialize)]
struct ConfigMap {
    metadata: Meta,
    #[serde(default)]
    data: copepod_client::Labels,
}

/// Starts the controller; without a configured authority there is nothing to publish.
pub(crate) fn start(context: &Context) {
    let Some(file) = context.config.root_ca_file.clone() else { return };
    let queue = WorkQueue::new();
    enqueue(&context.caches.namespaces, &queue);
    let maps: Informer<ConfigMap> =
        Informer::new(InformerConfig::all(CONFIG_MAPS).fields(format!("metadata.name={NAME}")));
    let changed = queue.clone();
    maps.on_change(move |key, _| changed.add(ObjectKey::new("", &key.namespace)));
    maps.start(&context.reader, &context.shutdown);
    context.work(&queue, 1, move |context, key| {
        let (maps, file) = (maps.clone(), file.clone());
        async move {
            maps.synced().await;
            let ca = match tokio::fs::read_to_string(&file).await {
                Ok(ca) => ca,
                Err(source) => return Err(copepod_client::ClientError::File { path: file, source }),
            };
            sync(&context, &maps, &key, &ca).await
        }
    });
}

async fn sync(context: &Context, maps: &Informer<ConfigMap>, key: &ObjectKey, ca: &str) -> SyncResult {
    let namespace = context.caches.namespaces.get_key(key).filter(|ns| &*ns.status.phase != "Terminating");
    if namespace.is_none() {
        return Ok(Outcome::Done);
    }
    let step = match maps.get(&key.name, NAME) {
        None => {
            let body = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": NAME, "annotations": {NOTE.0: NOTE.1}}, "data": {KEY: ca},
            });
            Step::Create { resource: CONFIG_MAPS, namespace: key.name.clone(), body }
        }
        Some(map) if map.data.len() == 1 && map.data.get(KEY).is_some_and(|have| have == ca) => {
            return Ok(Outcome::Done);
        }
        Some(map) => {
            let mut data: serde_json::Map<_, _> =
                map.data.keys().map(|key| (key.clone(), json!(null))).collect();
            data.insert(KEY.to_owned(), json!(ca));
            Step::merge(&CONFIG_MAPS, &map.metadata, json!({"data": data}))
        }
    };
    tolerate_race(execute(context, vec![step]).await.pop())
}
