//! Nodes.

use serde_json::{Value, json};

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
