//! Metrics, behaviour and target of an autoscaler.

use copepod_api::{Quantity, names};

use crate::kinds::at::At;
use crate::kinds::checks::amounts;

/// The API version of what is scaled names a group.
pub(crate) fn group(at: &At<'_>) {
    match at.str().split('/').count() {
        1 => at.invalid("apiVersion must specify API group"),
        2 => {}
        _ => at.invalid(format!("unexpected GroupVersion string: {}", at.str())),
    }
}

/// The object that is scaled, or that a metric describes.
pub(super) fn reference(at: &At<'_>) {
    for field in ["kind", "name"] {
        if at.get(field).need() {
            at.get(field).text(names::path_segment);
        }
    }
    let version = at.get("apiVersion");
    if version.str().matches('/').count() > 1 {
        version.invalid(format!("unexpected GroupVersion string: {}", version.str()));
    }
}

/// Metric types, their fields, in the order upstream looks at them.
const SOURCES: &[(&str, &str)] = &[
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];

/// `metrics`; scaling to zero needs one that lives without pods.
pub(super) fn metrics(list: &At<'_>, min: Option<i64>) {
    let mut from_outside = false;
    for at in list.items() {
        let kind = at.get("type");
        from_outside |= matches!(kind.str(), "Object" | "External");
        if kind.is_empty() {
            kind.required("must specify a metric source type");
        }
        if !TYPES.contains(&kind.str()) {
            kind.not_supported(TYPES);
        }
        let given: Vec<&str> = SOURCES.iter().map(|(_, f)| *f).filter(|f| at.get(f).present()).collect();
        if let Some(first) = given.first() {
            source(first, &at.get(first));
        }
        let expected = SOURCES.iter().find(|(name, _)| *name == kind.str()).map(|(_, field)| *field);
        if let Some(field) = expected.filter(|f| !at.get(f).present()) {
            at.get(field).required("must populate information for the given metric source");
        }
        if given.len() != 1 {
            for other in given.iter().filter(|f| Some(**f) != expected) {
                at.get(other).forbidden("must populate the given metric source only");
            }
        }
    }
    if min == Some(0) && !from_outside {
        list.forbidden(
            "must specify at least one Object or External metric to support scaling to zero replicas",
        );
    }
}

fn source(kind: &str, at: &At<'_>) {
    let target_at = at.get("target");
    let [value, average, utilization] =
        ["value", "averageValue", "averageUtilization"].map(|field| target_at.get(field));
    if kind == "object" {
        reference(&at.get("describedObject"));
    }
    if matches!(kind, "object" | "external" | "pods") {
        let name = at.at("metric.name");
        if name.need_because("must specify a metric name") {
            name.text(names::path_segment);
        }
    } else {
        let name = at.get("name");
        if name.need_because("must specify a resource name") && kind == "containerResource" {
            amounts::container_name(&name, name.str());
        }
    }
    if kind == "containerResource" && at.get("container").need_because("must specify a container") {
        at.get("container").text(names::dns1123_label);
    }
    target(&target_at);
    match kind {
        "object" if !value.present() && !average.present() => {
            average.required("must set either a target value or averageValue");
        }
        "external" if !value.present() && !average.present() => {
            average.required("must set either a target value for metric or a per-pod target");
        }
        "external" if value.present() && average.present() => {
            value.forbidden("may not set both a target value for metric and a per-pod target");
        }
        "pods" if !average.present() => average.required("must specify a positive target averageValue"),
        "resource" | "containerResource" => match (utilization.present(), average.present()) {
            (false, false) => {
                utilization.required("must set either a target raw value or a target utilization")
            }
            (true, true) => average.forbidden("may not set both a target raw value and a target utilization"),
            _ => {}
        },
        _ => {}
    }
}

fn target(at: &At<'_>) {
    let kind = at.get("type");
    kind.need_because("must specify a metric target type");
    if !matches!(kind.str(), "Utilization" | "Value" | "AverageValue") {
        kind.invalid("must be either Utilization, Value, or AverageValue");
    }
    for field in ["value", "averageValue"] {
        if let Some(amount) = amounts::amount(&at.get(field)).filter(|a| *a <= Quantity::ZERO) {
            at.get(field).invalid_as(amounts::shown(amount), "must be positive");
        }
    }
    let utilization = at.get("averageUtilization");
    if utilization.int().is_some_and(|n| n < 1) {
        utilization.invalid("must be greater than 0");
    }
}

/// Scaling rules of one direction.
pub(super) fn rules(at: &At<'_>) {
    if !at.present() {
        return;
    }
    let window = at.get("stabilizationWindowSeconds");
    if window.int().is_some_and(|n| n < 0) {
        window.invalid("must be greater than or equal to zero");
    } else if window.int().is_some_and(|n| n > 3600) {
        window.invalid("must be less than or equal to 3600");
    }
    at.get("selectPolicy").one_of(&["Disabled", "Max", "Min"]);
    let policies = at.get("policies");
    policies.need_because("must specify at least one Policy");
    for policy in policies.items() {
        let types = &["Percent", "Pods"];
        if !types.contains(&policy.get("type").str()) {
            policy.get("type").not_supported(types);
        }
        for field in ["value", "periodSeconds"] {
            let number = policy.get(field);
            if number.int().unwrap_or(0) <= 0 {
                number.invalid_as(number.int().unwrap_or(0), "must be greater than zero");
            }
        }
        if policy.get("periodSeconds").int().is_some_and(|n| n > 1800) {
            policy.get("periodSeconds").invalid("must be less than or equal to 1800");
        }
    }
    amounts::not_negative(&at.get("tolerance"));
}
