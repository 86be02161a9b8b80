//! Persistent volume claims.

use copepod_api::{Quantity, names};
use serde_json::Value;

use crate::kinds::at::{At, same};
use crate::kinds::checks::warn;
use crate::kinds::checks::{amounts, labels};
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
        drop_unknown_source(new);
        data_sources(new);
        if let Some(claim) = new.as_object_mut() {
            pending(claim);
        }
    },
    prepare_update: |_, new, old| {
        if old.pointer("/spec/dataSource").is_none() {
            drop_unknown_source(new);
        }
        data_sources(new);
    },
    validate: |claim| spec(&claim.get("spec")),
    validate_update: Some(update),
    warnings: |new, _| {
        warn::about(new, copepod_api::FieldPath::root(), |claim, warnings| {
            warn::claim(&claim.get("spec"), warnings)
        })
    },
    ..Kind::PLAIN
};

fn pending(claim: &mut Object) {
    let status = map_mut(claim, "status");
    if text(status, "phase").is_empty() {
        status.insert("phase".to_owned(), "Pending".into());
    }
}

/// The older `dataSource` knows claims and snapshots only; it never refused others, it forgot them.
fn drop_unknown_source(claim: &mut Value) {
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if spec.get("dataSourceRef").is_some_and(|r| r.get("namespace").is_some()) {
        // Sources in other namespaces are off by default.
        spec.remove("dataSourceRef");
    }
    let text = |field: &str| {
        spec.get("dataSource").and_then(|s| s.get(field)).and_then(Value::as_str).unwrap_or_default()
    };
    let known = matches!(
        (text("apiGroup"), text("kind")),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    );
    if !known && absent(spec, "dataSourceRef") {
        spec.remove("dataSource");
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

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Access modes of a claim or volume.
pub(crate) fn access_modes(at: &At<'_>) {
    let modes = at.strings();
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        at.push(copepod_api::FieldError::not_supported(at.path(), *mode, ACCESS_MODES));
    }
    let single = modes.contains(&"ReadWriteOncePod");
    let others = modes.iter().any(|m| *m != "ReadWriteOncePod" && ACCESS_MODES.contains(m));
    if single && others {
        at.forbidden("may not use ReadWriteOncePod with other access modes");
    }
}

/// What is wrong with a claim's spec.
pub(crate) fn spec(at: &At<'_>) {
    let modes = at.get("accessModes");
    modes.need_because("at least 1 access mode is required");
    labels::selector(&at.get("selector"));
    access_modes(&modes);
    let asked = at.at("resources.requests").key("storage");
    let storage = at.get("resources").key("storage").holding(&asked);
    if asked.present() {
        amounts::positive(&storage);
    } else {
        storage.required("");
    }
    for (field, may_be_empty) in [("storageClassName", true), ("volumeAttributesClassName", true)] {
        let class = at.get(field);
        if !(class.is_empty() && may_be_empty) {
            class.text(names::dns1123_subdomain);
        }
    }
    at.get("volumeMode").one_of(&["Block", "Filesystem"]);
    source(&at.get("dataSource"));
    let reference = at.get("dataSourceRef");
    source(&reference);
    let old = at.get("dataSource");
    if !reference.get("namespace").is_empty() {
        reference.get("namespace").text(names::dns1123_label);
        if old.present() {
            at.invalid_as(
                serde_json::Map::new(),
                "may not be specified when dataSourceRef.namespace is specified",
            );
        }
    } else if old.present() && reference.present() {
        let same = |field: &str| old.get(field).str() == reference.get(field).str();
        if !["apiGroup", "kind", "name"].into_iter().all(same) {
            at.invalid_as(serde_json::Map::new(), "must match dataSourceRef");
        }
    }
}

fn source(at: &At<'_>) {
    if !at.present() {
        return;
    }
    at.get("name").need();
    at.get("kind").need();
    let group = at.get("apiGroup");
    if group.is_empty() && !at.is("kind", "PersistentVolumeClaim") {
        at.invalid_as(
            at.get("kind").str(),
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        );
    } else if !group.is_empty() {
        group.text(names::dns1123_subdomain);
    }
}

fn update(new: &At<'_>, old: &At<'_>) {
    spec(&new.get("spec"));
    let (at, was) = (new.get("spec"), old.get("spec"));
    let (Some(mut now), Some(mut before)) = (at.value().cloned(), was.value().cloned()) else { return };
    let keep = |into: &mut Value, field: &str, from: &At<'_>| {
        crate::kinds::pod::validate::restore(into, field, from.get(field).value().cloned());
    };
    if was.get("volumeName").is_empty() {
        keep(&mut before, "volumeName", &at);
    }
    if !was.get("storageClassName").present() {
        keep(&mut now, "storageClassName", &was);
    }
    if new.at("status.phase").str() == "Bound" {
        keep(&mut now, "volumeAttributesClassName", &was);
        keep(&mut now, "resources", &was);
    }
    if !same(Some(&now), Some(&before)) {
        at.forbidden(format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{}",
            crate::kinds::pod::diff(&before, &now)
        ));
    }
    let size = |claim: &At<'_>, path: &str| amounts::amount(&claim.at(path)).unwrap_or(Quantity::ZERO);
    let (asked, had) = (size(&at, "resources.requests.storage"), size(&was, "resources.requests.storage"));
    if asked < had && asked <= size(old, "status.capacity.storage") {
        at.at("resources.requests.storage").forbidden("field can not be less than status.capacity");
    }
    let mode = at.get("volumeMode");
    mode.named(copepod_api::FieldPath::new("volumeMode")).immutable(&was.get("volumeMode"));
}
