//! Where the contents of API volumes come from.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;

use copepod_api::Quantity;
use k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, ConfigMap, Pod, PodCertificateProjection, Secret,
};

use crate::error::VolumeError;

/// A boxed future, so that the trait stays object-safe.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a projected token asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRequest {
    /// The audience; the API server's own when empty.
    pub audience: String,
    /// How long it lives, in seconds.
    pub expiration_seconds: i64,
}

/// A key and its certificate chain, both in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// The private key.
    pub key: String,
    /// The certificates, the pod's own first.
    pub chain: String,
}

/// Hands out the objects volumes are made of.
pub trait ObjectSource: Send + Sync + 'static {
    /// A ConfigMap; `NotFound` when there is none.
    fn config_map<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<ConfigMap, VolumeError>>;

    /// A Secret; `NotFound` when there is none.
    fn secret<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Result<Secret, VolumeError>>;

    /// A token of the pod's service account, bound to the pod; fresh when the last one has used up most of its life.
    fn token<'a>(
        &'a self,
        pod: &'a Pod,
        request: &'a TokenRequest,
    ) -> BoxFuture<'a, Result<String, VolumeError>>;

    /// The host path behind a claim that is bound to a `hostPath` or `local` volume, and whether it is read-only.
    fn claim<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Result<String, VolumeError>>;

    /// The trust anchors that a projection selects, in PEM; none is an error unless the projection is optional.
    fn trust_anchors<'a>(
        &'a self,
        _pod: &'a Pod,
        _wanted: &'a ClusterTrustBundleProjection,
    ) -> BoxFuture<'a, Result<String, VolumeError>> {
        let why = "ClusterTrustBundle projection is not supported in static kubelet mode";
        Box::pin(async move { Err(VolumeError::Api(why.to_owned())) })
    }

    /// The credential of the projection at `index` of the pod's volume `volume`; an error until it is issued.
    fn credential<'a>(
        &'a self,
        _pod: &'a Pod,
        (_volume, _index): (&'a str, usize),
        _wanted: &'a PodCertificateProjection,
    ) -> BoxFuture<'a, Result<Credential, VolumeError>> {
        Box::pin(async { Err(VolumeError::Api("no API server is configured".to_owned())) })
    }
}

/// What the downward API tells about the node.
#[derive(Debug, Clone, Default)]
pub struct NodeFacts {
    /// The node's addresses, first is primary.
    pub host_ips: Vec<IpAddr>,
    /// Allocatable processors: the limit of a container that sets none.
    pub cpu: Quantity,
    /// Allocatable memory.
    pub memory: Quantity,
    /// Allocatable local storage.
    pub ephemeral_storage: Quantity,
}
