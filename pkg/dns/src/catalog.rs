//! What the zone is made of: Services and EndpointSlices, trimmed to what a name needs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use copepod_client::{Client, Index, Informer, InformerConfig, resources};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

/// Names the Service a slice belongs to.
const SERVICE_OF_SLICE: &str = "kubernetes.io/service-name";

/// Name and labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// The name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
}

/// A Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceView {
    /// Name and namespace.
    pub metadata: Metadata,
    /// The specification.
    pub spec: ServiceSpec,
}

/// The part of a Service that has names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// The type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The cluster address or `None`.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: String,
    /// All cluster addresses.
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: Vec<String>,
    /// The name behind an ExternalName.
    pub external_name: String,
    /// The ports.
    pub ports: Vec<ServicePort>,
}

/// A named port, of a Service or of a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServicePort {
    /// Its name.
    pub name: Option<Box<str>>,
    /// Its protocol; TCP when unset.
    pub protocol: Option<Box<str>>,
    /// Its number.
    pub port: Option<u16>,
}

impl ServicePort {
    pub(crate) fn matches(&self, name: &str, protocol: &str) -> bool {
        self.name.as_deref().unwrap_or_default().eq_ignore_ascii_case(name)
            && self.protocol.as_deref().unwrap_or("TCP").eq_ignore_ascii_case(protocol)
    }
}

impl ServiceView {
    /// Whether the endpoints' addresses stand for the Service.
    #[must_use]
    pub fn is_headless(&self) -> bool {
        self.spec.cluster_ip == "None"
    }

    /// Its cluster addresses.
    #[must_use]
    pub fn addresses(&self) -> Vec<IpAddr> {
        let spec = &self.spec;
        let all = spec.cluster_ips.iter();
        if spec.cluster_ips.is_empty() {
            spec.cluster_ip.parse().into_iter().collect()
        } else {
            all.filter_map(|ip| ip.parse().ok()).collect()
        }
    }
}

/// An EndpointSlice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SliceView {
    /// Name and labels.
    pub metadata: Metadata,
    /// The ports.
    pub ports: Vec<ServicePort>,
    /// The endpoints.
    pub endpoints: Vec<EndpointView>,
}

/// An endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EndpointView {
    /// Its addresses.
    pub addresses: Vec<Box<str>>,
    /// Its name within the Service.
    pub hostname: Option<Box<str>>,
    /// Its state.
    pub conditions: Conditions,
}

/// An endpoint's state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Unset means yes.
    pub ready: Option<bool>,
}

impl EndpointView {
    /// Its address when it is ready.
    pub(crate) fn ready_address(&self) -> Option<IpAddr> {
        self.addresses.first().filter(|_| self.conditions.ready.unwrap_or(true))?.parse().ok()
    }

    /// Its name within the Service: its own, or its address with dashes.
    pub(crate) fn name(&self) -> String {
        match self.hostname.as_deref().filter(|h| !h.is_empty()) {
            Some(name) => name.to_ascii_lowercase(),
            None => self.addresses.first().map(|a| a.replace(['.', ':'], "-")).unwrap_or_default(),
        }
    }
}

/// Where the zone looks objects up.
pub trait Catalog {
    /// The Service of that name.
    fn service(&self, namespace: &str, name: &str) -> Option<Arc<ServiceView>>;
    /// All slices of a Service.
    fn slices(&self, namespace: &str, service: &str) -> Vec<Arc<SliceView>>;
    /// The Service with that cluster address.
    fn service_at(&self, address: IpAddr) -> Option<Arc<ServiceView>>;
    /// The slices with an endpoint at that address.
    fn slices_at(&self, address: IpAddr) -> Vec<Arc<SliceView>>;
    /// Whether anything is known in that namespace.
    fn has_namespace(&self, namespace: &str) -> bool;
    /// Whether everything has been listed: only then is a missing object a missing name.
    fn is_complete(&self) -> bool;
}

/// The catalog that follows the API.
#[derive(Debug, Clone)]
pub(crate) struct Informers {
    services: Informer<ServiceView>,
    slices: Informer<SliceView>,
    by_address: Index,
    by_service: Index,
    by_endpoint: Index,
}

impl Informers {
    pub(crate) fn start(client: &Client, shutdown: &CancellationToken) -> Self {
        let services: Informer<ServiceView> = Informer::new(InformerConfig::all(resources::SERVICES));
        let slices: Informer<SliceView> = Informer::new(InformerConfig::all(resources::ENDPOINT_SLICES));
        let by_address = services.add_index(|s| s.addresses().iter().map(ToString::to_string).collect());
        let by_service =
            slices.add_index(|s| owner(s).map(|name| key(&s.metadata.namespace, name)).into_iter().collect());
        let by_endpoint = slices.add_index(|s| {
            s.endpoints.iter().filter_map(EndpointView::ready_address).map(|ip| ip.to_string()).collect()
        });
        services.start(client, shutdown);
        slices.start(client, shutdown);
        Self { services, slices, by_address, by_service, by_endpoint }
    }

    /// Returns once everything has been listed.
    pub(crate) async fn synced(&self) {
        tokio::join!(self.services.synced(), self.slices.synced());
    }
}

fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// The Service a slice belongs to.
pub(crate) fn owner(slice: &SliceView) -> Option<&str> {
    slice.metadata.labels.get(SERVICE_OF_SLICE).map(String::as_str)
}

impl Catalog for Informers {
    fn service(&self, namespace: &str, name: &str) -> Option<Arc<ServiceView>> {
        self.services.get(namespace, name)
    }

    fn slices(&self, namespace: &str, service: &str) -> Vec<Arc<SliceView>> {
        self.slices.by_index(self.by_service, &key(namespace, service))
    }

    fn service_at(&self, address: IpAddr) -> Option<Arc<ServiceView>> {
        self.services.by_index(self.by_address, &address.to_string()).into_iter().next()
    }

    fn slices_at(&self, address: IpAddr) -> Vec<Arc<SliceView>> {
        self.slices.by_index(self.by_endpoint, &address.to_string())
    }

    fn has_namespace(&self, namespace: &str) -> bool {
        !self.services.list_namespace(namespace).is_empty()
    }
    fn is_complete(&self) -> bool {
        self.services.has_synced() && self.slices.has_synced()
    }
}

#[cfg(test)]
pub(crate) mod memory;
