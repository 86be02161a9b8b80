//! Projected volumes: several sources in one directory, later ones over earlier ones.

use k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, Pod, PodCertificateProjection, ProjectedVolumeSource,
    ServiceAccountTokenProjection, VolumeProjection,
};

use super::{namespace, optional};
use crate::atomic::{File, Payload};
use crate::error::VolumeError;
use crate::ownership;
use crate::payload::{self, DEFAULT_MODE, mode_or};
use crate::source::{NodeFacts, ObjectSource, TokenRequest};

/// Where one source stands and what it is made from.
struct Projection<'a> {
    pod: &'a Pod,
    volume: &'a str,
    index: usize,
    mode: u32,
    source: &'a dyn ObjectSource,
    node: &'a NodeFacts,
}

/// The files of all sources; what is wrong with each of them when any is not there.
pub(super) async fn payload(
    pod: &Pod,
    volume: &str,
    wanted: &ProjectedVolumeSource,
    source: &dyn ObjectSource,
    node: &NodeFacts,
) -> Result<Payload, VolumeError> {
    let mode = mode_or(wanted.default_mode, DEFAULT_MODE);
    let mut all = Payload::new();
    let mut errors = Vec::new();
    for (index, wanted) in wanted.sources.iter().flatten().enumerate() {
        let projection = Projection { pod, volume, index, mode, source, node };
        match projection.files(wanted).await {
            Ok(files) => all.extend(files),
            Err(error) => errors.push(error),
        }
    }
    match errors.len() {
        0 => Ok(all),
        1 => Err(errors.remove(0)),
        _ => Err(aggregate(&errors)),
    }
}

/// Several errors in Go's form, each text once.
fn aggregate(errors: &[VolumeError]) -> VolumeError {
    let mut texts: Vec<String> = Vec::new();
    for text in errors.iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let text = if texts.len() == 1 { texts.remove(0) } else { format!("[{}]", texts.join(", ")) };
    if errors.iter().all(VolumeError::permanent) {
        VolumeError::Invalid(text)
    } else {
        VolumeError::Api(text)
    }
}

impl Projection<'_> {
    async fn files(&self, wanted: &VolumeProjection) -> Result<Payload, VolumeError> {
        let (namespace, mode) = (namespace(self.pod), self.mode);
        if let Some(wanted) = &wanted.config_map {
            let found = self.source.config_map(namespace, &wanted.name).await;
            let object = optional(found, wanted.optional)?;
            let optional = wanted.optional == Some(true);
            return payload::config_map_items(wanted.items.as_deref(), object.as_ref(), optional, mode);
        }
        if let Some(wanted) = &wanted.secret {
            let object = optional(self.source.secret(namespace, &wanted.name).await, wanted.optional)?;
            let optional = wanted.optional == Some(true);
            return payload::secret_items(wanted.items.as_deref(), object.as_ref(), optional, mode);
        }
        if let Some(wanted) = &wanted.downward_api {
            let items = wanted.items.as_deref().unwrap_or_default();
            return payload::downward_api(items, self.pod, &[], self.node, mode);
        }
        if let Some(wanted) = &wanted.service_account_token {
            return self.token(wanted).await;
        }
        if let Some(wanted) = &wanted.cluster_trust_bundle {
            return self.trust_bundle(wanted).await;
        }
        if let Some(wanted) = &wanted.pod_certificate {
            return self.certificate(wanted).await;
        }
        let value = serde_json::to_value(wanted).unwrap_or_default();
        let kind = value.as_object().and_then(|map| map.keys().next()).cloned().unwrap_or_default();
        Err(VolumeError::Unsupported(format!("projected {kind}")))
    }

    /// A file that is readable by its owner alone as soon as a user or group is known to read it.
    fn private(&self, data: String) -> File {
        let owner = ownership::fs_user(self.pod);
        let known = owner.is_some() || ownership::fs_group(self.pod).is_some();
        File { data: data.into_bytes(), mode: if known { 0o600 } else { self.mode }, owner }
    }

    async fn token(&self, wanted: &ServiceAccountTokenProjection) -> Result<Payload, VolumeError> {
        let request = TokenRequest {
            audience: wanted.audience.clone().unwrap_or_default(),
            expiration_seconds: wanted.expiration_seconds.unwrap_or(3600),
        };
        let text = self.source.token(self.pod, &request).await?;
        Ok(Payload::from([(wanted.path.clone(), self.private(text))]))
    }

    async fn trust_bundle(&self, wanted: &ClusterTrustBundleProjection) -> Result<Payload, VolumeError> {
        let anchors = self.source.trust_anchors(self.pod, wanted).await?;
        Ok(Payload::from([(wanted.path.clone(), self.private(anchors))]))
    }

    async fn certificate(&self, wanted: &PodCertificateProjection) -> Result<Payload, VolumeError> {
        let credential = self.source.credential(self.pod, (self.volume, self.index), wanted).await?;
        let bundle = format!("{}{}", credential.key, credential.chain);
        let files = [
            (&wanted.credential_bundle_path, bundle),
            (&wanted.key_path, credential.key),
            (&wanted.certificate_chain_path, credential.chain),
        ];
        let named = files.into_iter().filter_map(|(path, data)| {
            let path = path.as_deref().filter(|path| !path.is_empty())?;
            Some((path.to_owned(), self.private(data)))
        });
        Ok(named.collect())
    }
}
