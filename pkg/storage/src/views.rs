//! Trimmed claims, volumes and classes of storage.

use std::collections::BTreeMap;

use copepod_api::{LabelSelector, Quantity};
use copepod_client::Meta;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The old place of a storage class's name.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// A PersistentVolumeClaim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Claim {
    /// Metadata.
    pub metadata: Meta,
    /// Desired state.
    pub spec: ClaimSpec,
    /// Observed state.
    pub status: ClaimStatus,
}

/// Of `spec`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    /// How it must be mountable.
    pub access_modes: Vec<Box<str>>,
    /// The volume it is bound to, or wants.
    pub volume_name: String,
    /// Class; absent and empty differ.
    pub storage_class_name: Option<Box<str>>,
    /// `Filesystem` or `Block`.
    pub volume_mode: Option<Box<str>>,
    /// Which volumes.
    #[serde(deserialize_with = "selector")]
    pub selector: Option<LabelSelector>,
    /// How much.
    pub resources: ClaimResources,
    /// Attributes class.
    pub volume_attributes_class_name: Option<Box<str>>,
}

fn selector<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<LabelSelector>, D::Error> {
    let source = Option::<Value>::deserialize(deserializer)?;
    let compile = |source| LabelSelector::from_object(Some(&source)).map_err(serde::de::Error::custom);
    source.map(compile).transpose()
}

/// How much a claim asks for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ClaimResources {
    /// `storage`.
    pub requests: BTreeMap<Box<str>, Quantity>,
}

/// Of `status`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    /// `Pending`, `Bound` or `Lost`.
    pub phase: Box<str>,
    /// Of the bound volume.
    pub access_modes: Option<Vec<Box<str>>>,
    /// Of the bound volume.
    pub capacity: Option<BTreeMap<Box<str>, Quantity>>,
    /// Conditions, as they are written.
    pub conditions: Vec<Value>,
    /// Attributes class in force.
    pub current_volume_attributes_class_name: Option<Box<str>>,
    /// A change of attributes class that is under way.
    pub modify_volume_status: Option<ModifyStatus>,
}

/// A change of attributes class that is under way.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModifyStatus {
    /// The class to come.
    pub target_volume_attributes_class_name: Box<str>,
}

impl Claim {
    /// The storage class, or empty.
    #[must_use]
    pub fn class(&self) -> &str {
        let named = self.spec.storage_class_name.as_deref().unwrap_or_default();
        self.metadata.annotation(CLASS).unwrap_or(named)
    }

    /// Whether a class, perhaps an empty one, was asked for.
    #[must_use]
    pub fn names_class(&self) -> bool {
        self.spec.storage_class_name.is_some() || self.metadata.annotation(CLASS).is_some()
    }

    /// How much is asked for.
    #[must_use]
    pub fn size(&self) -> Quantity {
        self.spec.resources.requests.get("storage").copied().unwrap_or_default()
    }

    /// All attributes classes that it uses.
    pub fn attributes_classes(&self) -> impl Iterator<Item = &str> {
        let status = &self.status;
        let target = status.modify_volume_status.as_ref().map(|m| &*m.target_volume_attributes_class_name);
        let wanted = self.spec.volume_attributes_class_name.as_deref();
        let current = status.current_volume_attributes_class_name.as_deref();
        [wanted, current, target].into_iter().flatten().filter(|name| !name.is_empty())
    }
}

/// A PersistentVolume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    /// Metadata.
    pub metadata: Meta,
    /// Desired state.
    pub spec: VolumeSpec,
    /// Observed state.
    pub status: VolumeStatus,
}

/// Of `spec`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    /// How large.
    pub capacity: BTreeMap<Box<str>, Quantity>,
    /// How it can be mounted.
    pub access_modes: Vec<Box<str>>,
    /// Whose it is, or is to be.
    pub claim_ref: Option<ClaimRef>,
    /// `Retain`, `Delete` or `Recycle`.
    pub persistent_volume_reclaim_policy: Box<str>,
    /// Class.
    pub storage_class_name: Box<str>,
    /// `Filesystem` or `Block`.
    pub volume_mode: Option<Box<str>>,
    /// Attributes class.
    pub volume_attributes_class_name: Option<Box<str>>,
    /// A volume of a driver.
    pub csi: Option<CsiVolume>,
    /// A directory of the node.
    pub host_path: Option<HostPath>,
    /// From which nodes it can be reached, as it is written; `null` when from all.
    pub node_affinity: Value,
}

/// A reference to a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID; empty while the volume is only meant for the claim.
    pub uid: String,
}

/// A volume of a driver.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiVolume {
    /// The driver.
    pub driver: Box<str>,
    /// The driver's name of the volume.
    pub volume_handle: Box<str>,
}

/// A directory of the node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct HostPath {
    /// Where.
    pub path: Box<str>,
}

/// Of `status`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct VolumeStatus {
    /// `Pending`, `Available`, `Bound`, `Released` or `Failed`.
    pub phase: Box<str>,
}

impl PersistentVolume {
    /// The storage class, or empty.
    #[must_use]
    pub fn class(&self) -> &str {
        self.metadata.annotation(CLASS).unwrap_or(&self.spec.storage_class_name)
    }

    /// How large it is.
    #[must_use]
    pub fn size(&self) -> Option<Quantity> {
        self.spec.capacity.get("storage").copied()
    }

    /// Whether it is bound to, or meant for, a claim.
    #[must_use]
    pub fn belongs_to(&self, claim: &Claim) -> bool {
        self.spec.claim_ref.as_ref().is_some_and(|owner| {
            let meta = &claim.metadata;
            owner.name == meta.name
                && owner.namespace == meta.namespace
                && (owner.uid.is_empty() || owner.uid == meta.uid)
        })
    }
}

/// A StorageClass.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// Metadata.
    pub metadata: Meta,
    /// Who makes volumes.
    pub provisioner: Box<str>,
    /// `Immediate` or `WaitForFirstConsumer`.
    pub volume_binding_mode: Box<str>,
    /// Where volumes can be made, as it is written; `null` when anywhere.
    pub allowed_topologies: Value,
}

impl StorageClass {
    /// Whether binding waits until a pod that uses the claim has found its node.
    #[must_use]
    pub fn waits(&self) -> bool {
        &*self.volume_binding_mode == "WaitForFirstConsumer"
    }

    /// Whether claims without a class get this one.
    #[must_use]
    pub fn is_default(&self) -> bool {
        let marks = [
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ];
        marks.iter().any(|mark| self.metadata.annotation(mark) == Some("true"))
    }
}
