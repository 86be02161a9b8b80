//! Scales and autoscalers.

use copepod_api::meta;
use serde_json::Value;

use super::cells::{age, int, list, scalar, text};
use super::rows::Printer;

/// The `scale` subresource of any kind.
pub(super) static PRINTER: Printer =
    Printer::new("Name|Desired:integer|Available:integer|Age", |cx, object| {
        vec![
            meta::name(object).into(),
            int(object, "/spec/replicas").into(),
            int(object, "/status/replicas").into(),
            age(cx.now, object),
        ]
    });

/// Horizontal pod autoscalers.
pub(super) static AUTOSCALERS: Printer =
    Printer::new("Name|Reference|Targets|MinPods|MaxPods|Replicas|Age", |cx, object| {
        let target = format!(
            "{}/{}",
            text(object, "/spec/scaleTargetRef/kind"),
            text(object, "/spec/scaleTargetRef/name")
        );
        vec![
            meta::name(object).into(),
            target.into(),
            metrics(object).into(),
            scalar(object, "/spec/minReplicas").unwrap_or_else(|| "<unset>".to_owned()).into(),
            int(object, "/spec/maxReplicas").into(),
            int(object, "/status/currentReplicas").into(),
            age(cx.now, object),
        ]
    });

fn metrics(autoscaler: &Value) -> String {
    // `autoscaling/v1` knows one metric, by its old name.
    if let Some(target) = scalar(autoscaler, "/spec/targetCPUUtilizationPercentage") {
        let current = scalar(autoscaler, "/status/currentCPUUtilizationPercentage");
        return format!(
            "cpu: {}/{target}%",
            current.map_or_else(|| "<unknown>".to_owned(), |c| format!("{c}%"))
        );
    }
    let specs = list(autoscaler, "/spec/metrics");
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let current = list(autoscaler, "/status/currentMetrics");
    let shown: Vec<String> = specs
        .iter()
        .enumerate()
        .take(2)
        .map(|(i, spec)| metric(spec, current.get(i).unwrap_or(&Value::Null)))
        .collect();
    let shown = shown.join(", ");
    if specs.len() > 2 { format!("{shown} + {} more...", specs.len() - 2) } else { shown }
}

fn metric(spec: &Value, status: &Value) -> String {
    let unknown = || "<unknown>".to_owned();
    let source = match text(spec, "/type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let target = |field: &str| scalar(spec, &format!("/{source}/target/{field}"));
    let current = |field: &str| scalar(status, &format!("/{source}/current/{field}"));
    let now = |field: &str| current(field).unwrap_or_else(unknown);
    match (source, target("averageValue")) {
        ("pods", average) => format!("{}/{}", now("averageValue"), average.unwrap_or_default()),
        ("resource" | "containerResource", Some(average)) => {
            format!("{}: {}/{average}", text(spec, &format!("/{source}/name")), now("averageValue"))
        }
        ("resource" | "containerResource", None) => {
            let percent = |value: Option<String>, other: &str| {
                value.map_or_else(|| other.to_owned(), |v| format!("{v}%"))
            };
            format!(
                "{}: {}/{}",
                text(spec, &format!("/{source}/name")),
                percent(current("averageUtilization"), "<unknown>"),
                percent(target("averageUtilization"), "<auto>")
            )
        }
        (_, Some(average)) => format!("{}/{average} (avg)", now("averageValue")),
        (_, None) => format!("{}/{}", now("value"), target("value").unwrap_or_default()),
    }
}
