//! What is read of autoscalers, scales and metrics.

use copepod_api::Quantity;
use copepod_client::Meta;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::views::Condition;

/// An autoscaler.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Autoscaler {
    pub(super) metadata: Meta,
    pub(super) spec: Spec,
    pub(super) status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    pub(super) scale_target_ref: Target,
    pub(super) min_replicas: Option<i64>,
    pub(super) max_replicas: i64,
    pub(super) metrics: Vec<Metric>,
    pub(super) behavior: Option<Behavior>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Target {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metric {
    pub(super) r#type: String,
    pub(super) resource: Option<Source>,
    pub(super) container_resource: Option<Source>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) container: String,
    pub(super) target: Wish,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Wish {
    pub(super) average_utilization: Option<i64>,
    pub(super) average_value: Option<Quantity>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Behavior {
    pub(super) scale_up: Option<Rules>,
    pub(super) scale_down: Option<Rules>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Rules {
    pub(super) stabilization_window_seconds: Option<u64>,
    pub(super) select_policy: Option<String>,
    pub(super) policies: Vec<Policy>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Policy {
    pub(super) r#type: String,
    pub(super) value: i64,
    pub(super) period_seconds: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_scale_time: Option<Timestamp>,
    pub(super) current_replicas: i64,
    pub(super) desired_replicas: i64,
    pub(super) current_metrics: Vec<Value>,
    pub(super) conditions: Vec<Condition>,
}

/// A scale, as it was read and as far as it matters.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    pub(super) source: Value,
    pub(super) metadata: Meta,
    pub(super) spec: ScaleSpec,
    pub(super) status: ScaleStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ScaleSpec {
    pub(super) replicas: i64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ScaleStatus {
    pub(super) selector: String,
}

impl<'de> Deserialize<'de> for Scale {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Parts {
            metadata: Meta,
            spec: ScaleSpec,
            status: ScaleStatus,
        }
        let source = Value::deserialize(deserializer)?;
        let parts: Parts = Deserialize::deserialize(&source).map_err(serde::de::Error::custom)?;
        Ok(Self { source, metadata: parts.metadata, spec: parts.spec, status: parts.status })
    }
}

/// What a pod's containers used.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodMetrics {
    pub(super) metadata: Meta,
    pub(super) timestamp: Option<Timestamp>,
    pub(super) window: String,
    pub(super) containers: Vec<ContainerMetrics>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContainerMetrics {
    pub(super) name: String,
    pub(super) usage: std::collections::BTreeMap<String, Quantity>,
}
