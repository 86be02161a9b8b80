//! Persistent volume claims.

use serde_json::Value;

use crate::kinds::defaults::{
    Object,
    Rule::{self, Amounts, In, Run},
    absent, map_mut, text,
};
use crate::kinds::kind::Kind;
use crate::kinds::pod::defaults::CLAIM_SPEC;

/// Defaults of a claim, also as a StatefulSet's template.
pub(crate) const CLAIM: &[Rule] = &[
    Run(pending),
    In(&["spec"], CLAIM_SPEC),
    In(&["status"], &[Amounts(&["capacity", "allocatedResources"])]),
];

/// Persistent volume claims.
pub(crate) static KIND: Kind = Kind {
    defaults: CLAIM,
    reset_status: true,
    prepare_create: |_, new| {
        data_sources(new);
        if let Some(claim) = new.as_object_mut() {
            pending(claim);
        }
    },
    prepare_update: |_, new, _| data_sources(new),
    ..Kind::PLAIN
};

fn pending(claim: &mut Object) {
    let status = map_mut(claim, "status");
    if text(status, "phase").is_empty() {
        status.insert("phase".to_owned(), "Pending".into());
    }
}

/// `dataSource` and `dataSourceRef` name the same thing, unless the latter names another namespace.
fn data_sources(claim: &mut Value) {
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let source = spec.get("dataSource").filter(|v| !v.is_null()).cloned();
    let reference = spec.get("dataSourceRef").filter(|v| !v.is_null()).cloned();
    match (source, reference) {
        (Some(source), None) => drop(spec.insert("dataSourceRef".to_owned(), source)),
        (None, Some(reference)) if reference.as_object().is_some_and(|r| absent(r, "namespace")) => {
            drop(spec.insert("dataSource".to_owned(), reference));
        }
        _ => {}
    }
}
