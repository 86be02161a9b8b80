//! Horizontal pod autoscalers: `autoscaling/v1` knows one metric, the average use of CPU; what it cannot say of a
//! v2 object travels in annotations.

use copepod_api::meta;
use serde_json::{Map, Value, json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// All of them.
pub(super) const ANNOTATIONS: [&str; 4] = [METRICS, CURRENT, CONDITIONS, BEHAVIOR];

/// The v2 form of a v1 object.
pub(super) fn to_v2(object: &mut Value) {
    set_version(object, "autoscaling/v2");
    let carried: Vec<Option<Value>> =
        [METRICS, CURRENT, CONDITIONS, BEHAVIOR].map(|key| take(object, key)).into();
    let [metrics, current, conditions, behavior] = carried.as_slice() else { return };
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        let target = spec.remove("targetCPUUtilizationPercentage");
        let mut list: Vec<Value> = metrics.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
        if let Some(percent) = target.filter(|t| !t.is_null()) {
            list.insert(0, cpu("target", json!({"type": "Utilization", "averageUtilization": percent})));
        }
        if !list.is_empty() {
            spec.insert("metrics".to_owned(), list.into());
        }
        insert(spec, "behavior", behavior.clone());
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        let percent = status.remove("currentCPUUtilizationPercentage").filter(|p| !p.is_null());
        let mut list: Vec<Value> = current.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
        if let Some(percent) = percent {
            list.insert(0, cpu("current", json!({"averageUtilization": percent})));
        }
        insert(status, "currentMetrics", (!list.is_empty()).then(|| list.into()));
        insert(status, "conditions", conditions.clone());
    }
}

/// The v1 form of a v2 object.
pub(super) fn to_v1(object: &mut Value) {
    set_version(object, "autoscaling/v1");
    let mut carried: Vec<(&str, Value)> = Vec::new();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        let (percent, rest) = split(spec.remove("metrics"), "target");
        insert(spec, "targetCPUUtilizationPercentage", percent);
        carried.extend(rest.map(|rest| (METRICS, rest)));
        carried.extend(spec.remove("behavior").map(|behavior| (BEHAVIOR, behavior)));
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        let (percent, rest) = split(status.remove("currentMetrics"), "current");
        insert(status, "currentCPUUtilizationPercentage", percent);
        carried.extend(rest.map(|rest| (CURRENT, rest)));
        carried.extend(status.remove("conditions").map(|conditions| (CONDITIONS, conditions)));
    }
    for (key, value) in carried {
        let annotations = meta::child_mut(meta::metadata_mut(object), "annotations");
        annotations.insert(key.to_owned(), value.to_string().into());
    }
}

/// The CPU percentage and all other metrics.
fn split(metrics: Option<Value>, side: &str) -> (Option<Value>, Option<Value>) {
    let Some(Value::Array(metrics)) = metrics else { return (None, None) };
    let (mut percent, mut rest) = (None, Vec::new());
    for metric in metrics {
        let found = metric.pointer(&format!("/resource/{side}/averageUtilization")).cloned();
        let is_cpu = metric["type"] == "Resource" && metric.pointer("/resource/name") == Some(&json!("cpu"));
        match found.filter(|_| is_cpu && percent.is_none()) {
            Some(found) => percent = Some(found),
            None => rest.push(metric),
        }
    }
    (percent, (!rest.is_empty()).then(|| rest.into()))
}

fn cpu(side: &str, value: Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", side: value}})
}

fn take(object: &mut Value, annotation: &str) -> Option<Value> {
    let annotations = meta::metadata_mut(object).get_mut("annotations")?.as_object_mut()?;
    serde_json::from_str(annotations.remove(annotation)?.as_str()?).ok()
}

fn insert(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        map.insert(key.to_owned(), value);
    }
}

fn set_version(object: &mut Value, api_version: &str) {
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".to_owned(), api_version.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v1_and_v2_are_one_object() {
        let v1 = json!({
            "apiVersion": "autoscaling/v1", "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 70}, "status": {},
        });
        let mut object = v1.clone();
        to_v2(&mut object);
        assert_eq!(object.pointer("/spec/metrics/0/resource/target/averageUtilization"), Some(&json!(70)));
        object["spec"]["behavior"] = json!({"scaleDown": {"policies": []}});
        let full = object.clone();
        to_v1(&mut object);
        assert_eq!(object["spec"]["targetCPUUtilizationPercentage"], 70);
        to_v2(&mut object);
        assert_eq!(object["spec"], full["spec"]);
    }
}
