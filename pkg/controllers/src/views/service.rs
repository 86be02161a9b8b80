//! Trimmed Services, EndpointSlices and Endpoints.

use copepod_client::Meta;
use serde::{Deserialize, Serialize};

use super::{HasMeta, IntOrString, MapSelector};

/// A Service.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Metadata.
    pub metadata: Meta,
    /// Desired state.
    pub spec: ServiceSpec,
    /// Observed state.
    pub status: ServiceStatus,
}

/// Of `status`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    /// Of a load balancer.
    pub load_balancer: LoadBalancerStatus,
}

/// Of `status.loadBalancer`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct LoadBalancerStatus {
    /// Where it answers.
    pub ingress: Vec<Ingress>,
}

/// An address of a load balancer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ingress {
    /// The address.
    pub ip: String,
    /// `VIP`: traffic keeps this address as its destination.
    pub ip_mode: String,
}

/// Of `spec`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// Whose load balancer it is; ours when absent.
    pub load_balancer_class: Option<Box<str>>,
    /// Which pods; absent for services whose endpoints somebody else keeps.
    pub selector: Option<MapSelector>,
    /// Ports.
    pub ports: Vec<ServicePort>,
    /// `ExternalName` has no endpoints.
    pub r#type: Box<str>,
    /// `None` for headless services.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Box<str>,
    /// `IPv4`, `IPv6`.
    pub ip_families: Vec<String>,
    /// Whether pods that are not ready are told to clients.
    pub publish_not_ready_addresses: bool,
    /// `PreferSameZone`, `PreferSameNode`, …
    pub traffic_distribution: Option<Box<str>>,
}

/// A port of a Service.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// Name.
    pub name: String,
    /// `TCP`, `UDP`, `SCTP`.
    pub protocol: String,
    /// Number.
    pub port: i64,
    /// Number or name of the pods' port.
    pub target_port: Option<IntOrString>,
    /// Protocol above the transport.
    pub app_protocol: Option<String>,
}

/// An EndpointSlice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    /// Metadata.
    pub metadata: Meta,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: String,
    /// Endpoints; a server may send `null`.
    #[serde(deserialize_with = "null_is_empty")]
    pub endpoints: Vec<Endpoint>,
    /// Ports; a server may send `null`.
    #[serde(deserialize_with = "null_is_empty")]
    pub ports: Vec<EndpointPort>,
}

fn null_is_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Vec<T>>::deserialize(deserializer)?.unwrap_or_default())
}

/// One endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, PartialOrd, Ord)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// Addresses.
    pub addresses: Vec<String>,
    /// State.
    pub conditions: EndpointConditions,
    /// Name in the cluster's DNS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The pod behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// Zone of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// State of an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// Takes new connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// On its way out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// What an endpoint stands for.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetRef {
    /// `Pod`.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

/// A port of endpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPort {
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
    /// Protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Protocol above the transport.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}

/// An Endpoints object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Endpoints {
    /// Metadata.
    pub metadata: Meta,
    /// Groups of addresses with the same ports.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub subsets: Vec<Subset>,
}

/// Addresses with the same ports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subset {
    /// Ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    /// Not ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_ready_addresses: Vec<Address>,
    /// Ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<EndpointPort>,
}

/// One address.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Address {
    /// Address.
    pub ip: String,
    /// Name in the cluster's DNS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The pod behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
}

impl HasMeta for Service {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl HasMeta for EndpointSlice {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl HasMeta for Endpoints {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}
