//! A trimmed Node and Lease.

use copepod_client::Meta;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Condition, HasMeta};

/// A Node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Metadata.
    pub metadata: Meta,
    /// Desired state.
    pub spec: NodeSpec,
    /// Observed state.
    pub status: NodeStatus,
}

/// Of `spec`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// Taints.
    pub taints: Vec<Taint>,
    /// Cordoned.
    pub unschedulable: bool,
    /// Pod range.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: Box<str>,
}

/// A taint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// Name.
    pub key: String,
    /// Value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule`, `NoExecute`.
    pub effect: String,
    /// Since when (NoExecute).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Timestamp>,
}

/// Of `status`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Conditions.
    pub conditions: Vec<Condition>,
    /// Addresses.
    pub addresses: Vec<NodeAddress>,
}

/// An address of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    /// `InternalIP`, `Hostname`, …
    pub r#type: String,
    /// The address.
    pub address: String,
}

/// A Lease.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Lease {
    /// Metadata.
    pub metadata: Meta,
    /// Of `spec`.
    pub spec: LeaseSpec,
}

/// Of `spec`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSpec {
    /// Last renewal.
    pub renew_time: Option<Timestamp>,
}

impl HasMeta for Node {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl HasMeta for Lease {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}
