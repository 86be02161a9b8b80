//! What the scheduler keeps of a node.

use std::collections::BTreeMap;

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
    /// Sizes of images by name.
    pub images: BTreeMap<Box<str>, i64>,
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
    images: Vec<RawImage>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawImage {
    names: Vec<Box<str>>,
    size_bytes: i64,
}

impl From<Raw> for Node {
    fn from(raw: Raw) -> Self {
        let named = |image: RawImage| image.names.into_iter().map(move |name| (name, image.size_bytes));
        let images = raw.status.images.into_iter().flat_map(named);
        Self {
            name: raw.metadata.name.into(),
            labels: raw.metadata.labels,
            taints: raw.spec.taints,
            unschedulable: raw.spec.unschedulable,
            allocatable: raw.status.allocatable,
            images: images.collect(),
        }
    }
}
