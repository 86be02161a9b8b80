//! Nodes.

use std::collections::HashSet;

use copepod_api::{FieldError, names};
use serde_json::{Value, json};

use crate::kinds::at::At;
use crate::kinds::checks::warn;
use crate::kinds::checks::{amounts, ip, labels, topology};
use crate::kinds::defaults::{
    Object,
    Rule::{Amounts, In, Run},
    absent, text,
};
use crate::kinds::kind::Kind;

/// Nodes.
pub(crate) static KIND: Kind = Kind {
    defaults: &[
        In(&["spec"], &[Run(pod_cidrs)]),
        In(&["status"], &[Amounts(&["capacity", "allocatable"]), Run(allocatable)]),
    ],
    prepare_create: |_, new| {
        if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("configSource");
        }
    },
    validate,
    validate_update: Some(|new, old| {
        validate(new);
        changed(new, old);
    }),
    validate_status: changed,
    warnings: |new, _| {
        warn::about(new, copepod_api::FieldPath::root(), |node, warnings| {
            let spec = node.get("spec");
            warn::out_of_use(&spec, &[("configSource", "the feature is removed")], warnings);
            if !spec.get("externalID").is_empty() {
                warnings.push(
                    "spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned(),
                );
            }
            spec.get("podCIDRs").items().for_each(|at| warn::network(&at, warnings));
        })
    },
    ..Kind::PLAIN
};

fn allocatable(status: &mut Object) {
    if absent(status, "allocatable")
        && let Some(capacity) = status.get("capacity").cloned()
    {
        status.insert("allocatable".to_owned(), capacity);
    }
}

/// `podCIDR` and the first of `podCIDRs` are the same; `podCIDR` decides.
fn pod_cidrs(spec: &mut Object) {
    let one = text(spec, "podCIDR").to_owned();
    let first = spec.get("podCIDRs").and_then(|list| list.get(0)?.as_str()).map(str::to_owned);
    match first {
        Some(first) if one.is_empty() => drop(spec.insert("podCIDR".to_owned(), first.into())),
        Some(first) if first == one => {}
        _ if one.is_empty() => {}
        _ => drop(spec.insert("podCIDRs".to_owned(), json!([one]))),
    }
}

fn validate(node: &At<'_>) {
    taints(node);
    resources(node);
    let ranges = node.at("spec.podCIDRs");
    ranges.items().for_each(|range| ip::cidr(&range, &[]));
    let v6 = ranges.strings().iter().filter(|r| r.contains(':')).count();
    let all = ranges.array().len();
    if all > 1 && (all > 2 || v6 != 1) {
        ranges.invalid("may specify no more than one CIDR for each IP family");
    }
}

/// Upstream files taints under the metadata.
fn taints(node: &At<'_>) {
    let list = node.get("metadata").get("taints").holding(&node.at("spec.taints"));
    let mut seen = HashSet::new();
    for at in list.items() {
        labels::key(&at.get("key"));
        let value = at.get("value");
        let errors = names::label_value(value.str());
        if !errors.is_empty() {
            value.invalid(errors.join(";"));
        }
        topology::effect(&at.get("effect"), false);
        if !seen.insert((at.get("key").str(), at.get("effect").str())) {
            let mut error = FieldError::duplicate(at.path(), at.value().cloned().unwrap_or_default());
            "taints must be unique by key and effect pair".clone_into(&mut error.detail);
            at.push(error);
        }
    }
}

fn resources(node: &At<'_>) {
    for list in ["capacity", "allocatable"] {
        for (name, place) in node.get("status").get(list).entries() {
            let path = node.get("status").get(list).get(name);
            amounts::value(&path.holding(&place), name);
        }
    }
}

fn changed(new: &At<'_>, old: &At<'_>) {
    resources(new);
    let mut seen = HashSet::new();
    for address in new.at("status.addresses").items() {
        if !seen.insert((address.get("type").str(), address.get("address").str())) {
            address.duplicate();
        }
    }
    let (ranges, was) = (new.at("spec.podCIDRs"), old.at("spec.podCIDRs"));
    if !was.is_empty() && ranges.value() != was.value() {
        ranges.forbidden("node updates may not change podCIDR except from \"\" to valid");
    }
    let (id, had) = (new.at("spec.providerID"), old.at("spec.providerID"));
    if !had.is_empty() && id.str() != had.str() {
        let verb = if id.is_empty() { "cleared" } else { "modified" };
        id.invalid_as(Value::Null, format!("field cannot be {verb} once set"));
    }
    taints(new);
}
