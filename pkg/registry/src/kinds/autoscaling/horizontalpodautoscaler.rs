//! Horizontal pod autoscalers, as `autoscaling/v2` stores them.

mod metrics_checks;

use serde_json::{Value, json};

use crate::kinds::at::At;
use crate::kinds::defaults::{
    Lit::I,
    Object,
    Rule::{In, Nil, Run},
    absent, fill, is_zero, map_mut, text,
};
use crate::kinds::kind::Kind;

/// Horizontal pod autoscalers.
pub(crate) static KIND: Kind = Kind {
    defaults: &[Run(old_metric), In(&["spec"], &[Nil("minReplicas", I(1)), Run(metrics), Run(behavior)])],
    validate: |autoscaler| {
        spec(&autoscaler.get("spec"));
        target_group(&autoscaler.at("spec.scaleTargetRef"));
    },
    validate_update: Some(|new, old| {
        spec(&new.get("spec"));
        if old.at("spec.scaleTargetRef.apiVersion").str().split('/').count() == 2 {
            target_group(&new.at("spec.scaleTargetRef"));
        }
    }),
    validate_status: |new, _| {
        for field in ["currentReplicas", "desiredReplicas"] {
            new.get("status").get(field).not_negative();
        }
    },
    ..Kind::WITH_STATUS
};

/// All that scales has a group, but for the one kind of the core group that does.
fn target_group(target: &At<'_>) {
    let version = target.get("apiVersion");
    let core = target.get("kind").str() == "ReplicationController" && !version.str().contains('/');
    if !core {
        metrics_checks::group(&version);
    }
}

/// In `autoscaling/v1` the default metric has a field of its own.
fn old_metric(autoscaler: &mut Object) {
    if text(autoscaler, "apiVersion") == "autoscaling/v1"
        && let Some(spec) = autoscaler.get_mut("spec").and_then(Value::as_object_mut)
    {
        fill(spec, "targetCPUUtilizationPercentage", 80);
    }
}

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

fn spec(at: &At<'_>) {
    let (min, max) = (at.get("minReplicas"), at.get("maxReplicas"));
    min.not_negative();
    if max.int().unwrap_or(0) < 1 {
        if max.int().unwrap_or(0) == 0 {
            max.required("");
        } else {
            max.invalid("must be greater than 0");
        }
    }
    if let (Some(low), Some(high)) = (min.int(), max.int().or(Some(0)))
        && high < low
    {
        max.invalid_as(high, "must be greater than or equal to `minReplicas`");
    }
    metrics_checks::reference(&at.get("scaleTargetRef"));
    metrics_checks::metrics(&at.get("metrics"), min.int());
    for direction in ["scaleUp", "scaleDown"] {
        metrics_checks::rules(&at.get("behavior").get(direction));
    }
}
