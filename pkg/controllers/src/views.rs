//! What the controllers read of objects, and nothing more: the memory of the caches is the memory of these structs.

mod batch;
mod node;
mod pod;
mod service;
mod sets;
mod workload;

pub use batch::*;
pub use copepod_storage::{Claim, ClaimRef, PersistentVolume, StorageClass};
pub use node::*;
pub use pod::*;
pub use service::*;
pub use sets::*;
pub use workload::*;

use copepod_api::LabelSelector;
use copepod_client::{Labels, Meta};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// Everything with metadata.
pub trait HasMeta {
    /// The metadata.
    fn meta(&self) -> &Meta;
}

macro_rules! has_meta {
    ($($view:ty),* $(,)?) => {
        $(impl HasMeta for $view {
            fn meta(&self) -> &Meta {
                &self.metadata
            }
        })*
    };
}

/// A part of an object that is kept encoded and read rarely; `null` when absent.
#[derive(Debug, Clone)]
pub struct Raw(Box<str>);

impl Default for Raw {
    fn default() -> Self {
        Self("null".into())
    }
}

impl Raw {
    /// The part, decoded.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or(Value::Null)
    }

    /// Encodes a value.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        Self(value.to_string().into())
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: Box<RawValue> = Deserialize::deserialize(deserializer)?;
        Ok(Self(raw.get().into()))
    }
}

/// A condition of an object's status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What it is about.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    /// When it was last updated (Deployments).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Timestamp>,
    /// When it was last probed (Jobs).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Timestamp>,
    /// When it was last reported (Nodes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Timestamp>,
    /// Which generation it speaks of (PodDisruptionBudgets).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// A condition that holds, or not.
    #[must_use]
    pub fn new(kind: &str, status: bool, reason: &str, message: impl Into<String>) -> Self {
        Self {
            r#type: kind.to_owned(),
            status: if status { "True" } else { "False" }.to_owned(),
            reason: reason.to_owned(),
            message: message.into(),
            ..Self::default()
        }
    }
}

/// The condition of a type.
#[must_use]
pub fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.r#type == kind)
}

/// Whether the condition of a type is `True`.
#[must_use]
pub fn holds(conditions: &[Condition], kind: &str) -> bool {
    condition(conditions, kind).is_some_and(|c| c.status == "True")
}

/// Puts a condition in the place of its predecessor; the transition time stays while the status does.
pub fn set_condition(conditions: &mut Vec<Condition>, mut new: Condition, now: Timestamp) {
    match conditions.iter_mut().find(|c| c.r#type == new.r#type) {
        Some(old) => {
            new.last_transition_time =
                if old.status == new.status { old.last_transition_time } else { Some(now) };
            *old = new;
        }
        None => {
            new.last_transition_time = Some(now);
            conditions.push(new);
        }
    }
}

/// A selector object together with its compiled form.
#[derive(Debug, Clone, Default)]
pub struct Selector {
    /// Compiled; selects nothing when the object is absent.
    pub compiled: LabelSelector,
    /// As it was written.
    pub source: Raw,
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let source = Value::deserialize(deserializer)?;
        let compiled = LabelSelector::from_object(Some(&source)).map_err(serde::de::Error::custom)?;
        Ok(Self { compiled, source: Raw::of(&source) })
    }
}

impl From<MapSelector> for Selector {
    fn from(map: MapSelector) -> Self {
        let source = serde_json::json!({"matchLabels": map.0});
        // Without any label it selects nothing, as an absent selector does.
        let compiled = if map.0.is_empty() { None } else { LabelSelector::from_object(Some(&source)).ok() };
        Self { compiled: compiled.unwrap_or_else(LabelSelector::nothing), source: Raw::of(&source) }
    }
}

/// A selector written as a plain map (ReplicationControllers, Services).
#[derive(Debug, Clone, Default)]
pub struct MapSelector(pub Labels);

impl<'de> Deserialize<'de> for MapSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Option::<Labels>::deserialize(deserializer)?.unwrap_or_default()))
    }
}

/// An integer or a percentage.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i64),
    /// A percentage, or a name.
    Text(String),
}

impl Serialize for IntOrString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(number) => serializer.serialize_i64(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl IntOrString {
    /// The number meant, of `total`; fractions go up or down. `None` for a text that is no percentage.
    #[must_use]
    pub fn of(&self, total: i64, up: bool) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Text(text) => {
                let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
                let product = percent * total;
                Some(if up { (product + 99).div_euclid(100) } else { product.div_euclid(100) })
            }
        }
    }
}

/// An object of which only the metadata matters.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetaOnly {
    /// Metadata.
    pub metadata: Meta,
}

/// A Namespace.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Namespace {
    /// Metadata.
    pub metadata: Meta,
    /// Finalizers of the namespace itself.
    pub spec: NamespaceSpec,
    /// Phase and conditions.
    pub status: PhaseStatus,
}

/// `spec` of a Namespace.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct NamespaceSpec {
    /// Usually `kubernetes`.
    pub finalizers: Vec<String>,
}

/// A status with a phase and conditions.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PhaseStatus {
    /// Phase.
    pub phase: Box<str>,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

has_meta!(MetaOnly, Namespace, Claim, PersistentVolume, StorageClass);
