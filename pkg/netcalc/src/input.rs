//! What is read of the API's objects: only the fields that matter, so that a cache of many stays small.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize;

/// An object's name and labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// A Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceView {
    /// Name and labels.
    pub metadata: Metadata,
    /// The specification.
    pub spec: ServiceSpec,
    /// The load balancer's addresses.
    pub status: ServiceStatus,
}

/// The part of a Service's specification that a proxy acts on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The first cluster address, or `None`.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: String,
    /// All cluster addresses.
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: Vec<String>,
    /// The ports.
    pub ports: Vec<ServicePortView>,
    /// Addresses routed to this node by others.
    #[serde(rename = "externalIPs")]
    pub external_ips: Vec<String>,
    /// `None` or `ClientIP`.
    pub session_affinity: String,
    /// How long a client stays with an endpoint.
    pub session_affinity_config: Option<AffinityConfig>,
    /// `Cluster` or `Local`, for traffic from outside.
    pub external_traffic_policy: String,
    /// `Cluster` or `Local`, for traffic to the cluster address.
    pub internal_traffic_policy: String,
    /// Who may use the load balancer's addresses.
    pub load_balancer_source_ranges: Vec<String>,
    /// Where a load balancer asks whether this node has endpoints.
    pub health_check_node_port: u16,
}

/// One port of a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePortView {
    /// Its name; empty when there is only one.
    pub name: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The port on the Service's addresses.
    pub port: u16,
    /// The port on the node; 0 when there is none.
    pub node_port: u16,
}

/// Session affinity by client address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AffinityConfig {
    /// The timeout.
    #[serde(rename = "clientIP")]
    pub client_ip: Option<ClientIp>,
}

/// The timeout of session affinity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientIp {
    /// Seconds; 10800 when unset.
    pub timeout_seconds: Option<u32>,
}

/// A Service's status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    /// The load balancer's.
    pub load_balancer: LoadBalancer,
}

/// A load balancer's addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LoadBalancer {
    /// One entry per address or host name.
    pub ingress: Vec<Ingress>,
}

/// One address of a load balancer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ingress {
    /// The address; empty when it has a host name only.
    pub ip: String,
    /// `VIP` (packets keep the address; the default) or `Proxy` (they do not, and nothing is captured).
    pub ip_mode: Option<String>,
}

/// An EndpointSlice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SliceView {
    /// Name and labels; `kubernetes.io/service-name` says whose it is.
    pub metadata: Metadata,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: String,
    /// The ports all its endpoints have.
    pub ports: Vec<EndpointPort>,
    /// The endpoints.
    pub endpoints: Vec<EndpointView>,
}

/// One port of a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EndpointPort {
    /// The Service port's name.
    pub name: Option<String>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Option<String>,
    /// The number; unset means every port and is not served.
    pub port: Option<u16>,
}

/// One endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointView {
    /// Its addresses; only the first counts.
    pub addresses: Vec<String>,
    /// Its state.
    pub conditions: Conditions,
    /// The node it runs on.
    pub node_name: Option<String>,
    /// Whom it should serve first.
    pub hints: Option<Hints>,
}

/// An endpoint's state; unset means yes, yes and no.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// May get new connections.
    pub ready: Option<bool>,
    /// Answers, terminating or not.
    pub serving: Option<bool>,
    /// Is being stopped.
    pub terminating: Option<bool>,
}

/// Topology hints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hints {
    /// Zones that should use the endpoint.
    pub for_zones: Vec<Named>,
    /// Nodes that should use the endpoint.
    pub for_nodes: Vec<Named>,
}

/// A name in a list of hints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Named {
    /// The zone's or node's name.
    pub name: String,
}

/// What the calculation needs to know of this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name, as endpoints give it.
    pub name: String,
    /// Its zone, from the label `topology.kubernetes.io/zone`.
    pub zone: String,
    /// Its addresses, the primary one of each family first.
    pub addresses: Vec<IpAddr>,
}
