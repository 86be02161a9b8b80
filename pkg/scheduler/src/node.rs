//! What the scheduler keeps of a node.

use serde::Deserialize;

use crate::pod::Taint;
use crate::resources::Resources;
use crate::selector::Labels;

/// A trimmed node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "Raw")]
pub struct Node {
    /// Name.
    pub name: Box<str>,
    /// Labels.
    pub labels: Labels,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Cordoned.
    pub unschedulable: bool,
    /// What pods may ask for in all.
    pub allocatable: Resources,
}

#[derive(Deserialize)]
struct Raw {
    metadata: copepod_client::Meta,
    #[serde(default)]
    spec: RawSpec,
    #[serde(default)]
    status: RawStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawSpec {
    taints: Vec<Taint>,
    unschedulable: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawStatus {
    allocatable: Resources,
}

impl From<Raw> for Node {
    fn from(raw: Raw) -> Self {
        Self {
            name: raw.metadata.name.into(),
            labels: raw.metadata.labels,
            taints: raw.spec.taints,
            unschedulable: raw.spec.unschedulable,
            allocatable: raw.status.allocatable,
        }
    }
}
