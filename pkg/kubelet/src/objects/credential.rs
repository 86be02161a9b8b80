//! Pod certificates: a key made here, a PodCertificateRequest about it, and the chain a signer answers with.
//!
//! Nothing runs by itself: each sync of the pod looks at its projections, and a change of a request wakes its pod.

mod state;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use copepod_client::{Client, Informer, InformerConfig, Meta, resources};
use copepod_volume::{Credential, VolumeError};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCertificateProjection};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::state::{ABANDON, Pending, RequestView, State};
use super::{FIRST_ANSWER, Wake};
use crate::pod::PodExt;
use crate::ports::{EventKind, EventSink};

/// Renewals and give-ups are spread over this time.
const JITTER: Duration = Duration::from_secs(5 * 60);

/// Pod UID, volume and index of the source in it.
type Key = (String, String, usize);

/// The certificates of all pods on this node.
pub(super) struct Credentials {
    client: Client,
    node: String,
    events: Arc<dyn EventSink>,
    wake: Wake,
    requests: OnceLock<Informer<RequestView>>,
    states: Mutex<HashMap<Key, State>>,
}

#[derive(Debug, Deserialize)]
struct ObjectView {
    metadata: Meta,
}

fn jitter() -> Duration {
    JITTER.mul_f64(rand::random::<f64>())
}

impl Credentials {
    pub(super) fn new(client: Client, node: &str, events: Arc<dyn EventSink>, wake: Wake) -> Self {
        Self {
            client,
            node: node.to_owned(),
            events,
            wake,
            requests: OnceLock::new(),
            states: Mutex::default(),
        }
    }

    /// The pod is gone, its keys with it.
    pub(super) fn forget(&self, uid: &str) {
        self.states.lock().retain(|key, _| key.0 != uid);
    }

    /// The node's requests, followed from the first pod that needs one.
    async fn requests(&self) -> Result<&Informer<RequestView>, VolumeError> {
        let informer = self.requests.get_or_init(|| {
            let selector = format!("spec.nodeName={}", self.node);
            let informer: Informer<RequestView> =
                Informer::new(InformerConfig::all(resources::POD_CERTIFICATE_REQUESTS).fields(selector));
            let wake = self.wake.clone();
            informer.on_change(move |_, change| wake(&change.object().spec.pod_uid));
            informer.start(&self.client, &CancellationToken::new());
            informer
        });
        let synced = tokio::time::timeout(FIRST_ANSWER, informer.synced()).await;
        synced
            .map_err(|_| VolumeError::Api("PodCertificateRequest informer has not yet synced".to_owned()))?;
        Ok(informer)
    }

    /// One step of the projection's life, then its credential if there is one.
    pub(super) async fn get(
        &self,
        pod: &Pod,
        (volume, index): (&str, usize),
        wanted: &PodCertificateProjection,
    ) -> Result<Credential, VolumeError> {
        let key = (pod.uid().to_owned(), volume.to_owned(), index);
        let requests = self.requests().await?;
        let now = copepod_sys::clock::now();
        let mut state = self.states.lock().get(&key).cloned().unwrap_or_default();
        let request = state.request().map(str::to_owned);
        let seen = request.as_deref().and_then(|name| requests.get(pod.namespace(), name));
        let name = format!("{}/{}", pod.namespace(), request.unwrap_or_default());
        let (next, notices) = state.observe(&name, seen.as_deref(), now, jitter());
        for (reason, text) in notices {
            self.events.pod_event(pod, None, EventKind::Warning, reason, &text);
        }
        state = next;
        if state.wants_request(now) {
            let made = self.request(pod, wanted).await;
            state = match made {
                Ok(pending) => state.requested(pending),
                // A certificate that is still there is better than none; the next sync asks again.
                Err(error) if state.credential().is_ok() => {
                    tracing::warn!(pod = pod.full_name(), %error, "pod certificate not renewed yet");
                    state
                }
                Err(error) => return Err(error),
            };
        }
        let credential = state.credential();
        self.states.lock().insert(key, state);
        credential.map_err(VolumeError::Api)
    }

    /// Makes a key and a request about it.
    async fn request(&self, pod: &Pod, wanted: &PodCertificateProjection) -> Result<Pending, VolumeError> {
        let fail = |what: &'static str| {
            move |e: copepod_client::ClientError| {
                VolumeError::Api(format!("{what}: {}", copepod_client::chain(&e)))
            }
        };
        let namespace = pod.namespace();
        let account = pod.spec().service_account_name.clone().unwrap_or_default();
        let target = resources::SERVICE_ACCOUNTS.object(namespace, &account);
        let account_object: ObjectView =
            self.client.get(&target).await.map_err(fail("while fetching service account"))?;
        let node: ObjectView = self
            .client
            .get(&resources::NODES.object("", &self.node))
            .await
            .map_err(fail("while getting node object"))?;
        let key_type = wanted.key_type.clone();
        let stub = tokio::task::spawn_blocking(move || copepod_pki::stub_request(&key_type))
            .await
            .map_err(|e| VolumeError::Api(format!("while generating keypair: {e}")))?
            .map_err(|e| VolumeError::Invalid(format!("while generating keypair: {e}")))?;
        let body = json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "PodCertificateRequest",
            "metadata": {
                "namespace": namespace,
                "generateName": "req-",
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": pod.name(), "uid": pod.uid()},
                ],
            },
            "spec": {
                "signerName": wanted.signer_name,
                "podName": pod.name(),
                "podUID": pod.uid(),
                "serviceAccountName": account,
                "serviceAccountUID": account_object.metadata.uid,
                "nodeName": self.node,
                "nodeUID": node.metadata.uid,
                "maxExpirationSeconds": wanted.max_expiration_seconds,
                "stubPKCS10Request": STANDARD.encode(&stub.request),
                "unverifiedUserAnnotations": wanted.user_annotations,
            },
        });
        let created: ObjectView = self
            .client
            .create(&resources::POD_CERTIFICATE_REQUESTS.collection(namespace), &body)
            .await
            .map_err(fail("while creating PodCertificateRequest"))?;
        let made_at: Timestamp = created.metadata.creation_timestamp.unwrap_or_else(copepod_sys::clock::now);
        let abandon_at = made_at.checked_add(ABANDON + jitter()).unwrap_or(made_at);
        Ok(Pending { key: stub.key_pem, request: created.metadata.name, abandon_at })
    }
}
