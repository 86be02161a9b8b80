//! Horizontal pod autoscalers, as `autoscaling/v2` stores them.

use serde_json::{Value, json};

use crate::kinds::defaults::{
    Lit::I,
    Object,
    Rule::{In, Nil, Run},
    absent, fill, is_zero, map_mut,
};
use crate::kinds::kind::Kind;

/// Horizontal pod autoscalers.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(&["spec"], &[Nil("minReplicas", I(1)), Run(metrics), Run(behavior)])],
    ..Kind::WITH_STATUS
};

fn metrics(spec: &mut Object) {
    // `targetCPUUtilizationPercentage` marks a body of `autoscaling/v1`, where it is the metric.
    if spec.get("metrics").is_none_or(is_zero) && absent(spec, "targetCPUUtilizationPercentage") {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        spec.insert(
            "metrics".to_owned(),
            json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]),
        );
    }
}

/// Once any behaviour is given, both directions get complete rules.
fn behavior(spec: &mut Object) {
    let Some(behavior) = spec.get_mut("behavior").and_then(Value::as_object_mut) else { return };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let up = map_mut(behavior, "scaleUp");
    fill(up, "stabilizationWindowSeconds", 0);
    fill(up, "selectPolicy", "Max");
    fill(up, "policies", json!([pods, percent]));
    let down = map_mut(behavior, "scaleDown");
    fill(down, "selectPolicy", "Max");
    fill(down, "policies", json!([percent]));
}
