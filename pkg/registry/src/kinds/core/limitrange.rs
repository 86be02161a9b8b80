//! Limit ranges.

use std::collections::BTreeSet;

use copepod_api::{Quantity, names};
use serde_json::Value;

use crate::kinds::at::At;
use crate::kinds::checks::amounts;
use crate::kinds::defaults::{
    Object,
    Rule::{Amounts, Each, In, Run},
    fill, map_mut, text,
};
use crate::kinds::kind::Kind;

/// Limit ranges.
pub(crate) static KIND: Kind = Kind {
    create_on_update: true,
    defaults: &[In(
        &["spec"],
        &[Each(
            &["limits"],
            &[
                Amounts(&["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]),
                Run(container_defaults),
            ],
        )],
    )],
    validate,
    ..Kind::PLAIN
};

/// For containers, a maximum is a default limit, and a default limit or a minimum a default request.
fn container_defaults(item: &mut Object) {
    if text(item, "type") != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let given = item.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
        if !given.is_empty() {
            let target = map_mut(item, to);
            given.into_iter().for_each(|(name, amount)| fill(target, &name, amount));
        }
    }
}

fn validate(range: &At<'_>) {
    let mut seen = BTreeSet::new();
    for at in range.at("spec.limits").items() {
        let kind = at.get("type");
        limit_type(&kind);
        if !seen.insert(kind.str()) {
            kind.duplicate();
        }
        let pod = kind.str() == "Pod";
        let mut names = BTreeSet::new();
        for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            let list = at.get(field);
            if pod && field.starts_with("default") {
                if !list.is_empty() {
                    list.forbidden("may not be specified when `type` is 'Pod'");
                }
                continue;
            }
            for (name, place) in list.entries() {
                if matches!(kind.str(), "Pod" | "Container") {
                    amounts::container_name(&place, name);
                } else {
                    amounts::name(&place, name);
                }
                names.insert(name);
            }
        }
        let bound = |field: &str| at.get(field).key("storage").present();
        if kind.str() == "PersistentVolumeClaim" && !bound("min") && !bound("max") {
            at.get("limits")
                .required("either minimum or maximum storage value is required, but neither was provided");
        }
        names.into_iter().for_each(|name| consistent(&at, name));
    }
}

fn limit_type(at: &At<'_>) {
    let errors = names::qualified_name(at.str());
    let standard = matches!(at.str(), "Pod" | "Container" | "PersistentVolumeClaim");
    if errors.is_empty() && !at.str().contains('/') && !standard {
        at.invalid("must be a standard limit type or fully qualified");
    }
    errors.into_iter().for_each(|error| at.invalid_as(at.str(), error));
}

/// Pairs of bounds of which the first may not exceed the second: (first, its name, second, its name, field at fault).
const ORDER: &[(&str, &str, &str, &str, &str)] = &[
    ("min", "min value", "max", "max value", "min"),
    ("min", "min value", "defaultRequest", "default request value", "defaultRequest"),
    ("defaultRequest", "default request value", "max", "max value", "defaultRequest"),
    ("defaultRequest", "default request value", "default", "default limit value", "defaultRequest"),
    ("min", "min value", "default", "default value", "default"),
    ("default", "default value", "max", "max value", "default"),
];

fn consistent(at: &At<'_>, name: &str) {
    let amount = |field: &str| amounts::amount(&at.get(field).key(name));
    for (low, low_name, high, high_name, fault) in ORDER {
        if let (Some(a), Some(b)) = (amount(low), amount(high))
            && a > b
        {
            // For limits upstream shows the bound, not the limit.
            let shown = match (*low, *high) {
                (_, "default") if *fault == "default" => a,
                ("default", "max") => b,
                _ => amount(fault).unwrap_or(a),
            };
            at.get(fault)
                .key(name)
                .invalid_as(amounts::shown(shown), format!("{low_name} {a} is greater than {high_name} {b}"));
        }
    }
    if let Some(ratio) = amount("maxLimitRequestRatio").filter(|r| *r < Quantity::from_units(1)) {
        at.get("maxLimitRequestRatio")
            .key(name)
            .invalid_as(amounts::shown(ratio), format!("ratio {ratio} is less than 1"));
    }
    if let (Some(limit), Some(request)) = (amount("default"), amount("defaultRequest"))
        && limit != request
        && !amounts::overcommits(name)
    {
        at.get("defaultRequest").key(name).invalid_as(
            amounts::shown(request),
            format!("default value {limit} must equal to defaultRequest value {request} in {name}"),
        );
    }
}
