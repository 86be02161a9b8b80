//! Claims: of storage (PersistentVolumeClaims), by storage class, and of devices (ResourceClaims), by device class.

use std::collections::BTreeMap;

use copepod_api::Quantity;
use serde_json::Value;

use crate::{Amounts, Term};

/// Between a storage class and what is counted of it.
const STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
/// After a device class.
const DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// Devices that `allocationMode: All` may come to.
const ALL_DEVICES: i64 = 32;
const STORAGE: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];

/// Whether claims of storage count under `name`.
pub(crate) fn counts_storage(name: &str) -> bool {
    let by_class = |what: &&str| name.strip_suffix(*what).is_some_and(|rest| rest.ends_with(STORAGE_CLASS));
    name == "count/persistentvolumeclaims" || STORAGE.contains(&name) || STORAGE.iter().any(by_class)
}

/// Whether claims of devices count under `name`.
pub(crate) fn counts_devices(name: &str) -> bool {
    name == "count/resourceclaims.resource.k8s.io" || name.ends_with(DEVICE_CLASS)
}

/// What one claim of storage uses.
pub(crate) fn storage(claim: &Value) -> Amounts {
    let one = Quantity::from_units(1);
    let class = copepod_api::meta::annotation(claim, "volume.beta.kubernetes.io/storage-class")
        .or_else(|| claim.pointer("/spec/storageClassName").and_then(Value::as_str))
        .filter(|class| !class.is_empty());
    let mut used = Amounts::default();
    used.set("persistentvolumeclaims", one);
    used.set("count/persistentvolumeclaims", one);
    if let Some(class) = class {
        used.set(format!("{class}{STORAGE_CLASS}persistentvolumeclaims"), one);
    }
    if let Some(size) = size(claim) {
        used.set("requests.storage", size);
        if let Some(class) = class {
            used.set(format!("{class}{STORAGE_CLASS}requests.storage"), size);
        }
    }
    used
}

/// What is asked for, or what has been set aside already when that is more, in whole bytes.
fn size(claim: &Value) -> Option<Quantity> {
    let at = |path: &str| Amounts::read(claim.pointer(path)).get("storage");
    let asked = at("/spec/resources/requests")?;
    let most = at("/status/allocatedResources").filter(|given| *given > asked).unwrap_or(asked);
    Some(most.round_up())
}

/// Whether a claim of storage is in a scope.
pub(crate) fn in_scope(term: &Term, claim: &Value) -> bool {
    const CLASSES: [&str; 3] = [
        "/spec/volumeAttributesClassName",
        "/status/currentVolumeAttributesClassName",
        "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
    ];
    let names = CLASSES.iter().filter_map(|path| claim.pointer(path).and_then(Value::as_str));
    let mut names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    names.dedup();
    term.scope == "VolumeAttributesClass" && term.names(&names)
}

/// What one claim of devices uses; of alternatives the most of each class counts.
pub(crate) fn devices(claim: &Value) -> Amounts {
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let number = |request: &Value| match request["allocationMode"].as_str() {
        Some("ExactCount") => request["count"].as_i64().unwrap_or(0),
        Some("All") => ALL_DEVICES,
        _ => 0,
    };
    let class = |request: &Value| request["deviceClassName"].as_str().unwrap_or_default().to_owned();
    let mut used = Amounts::default();
    used.set("count/resourceclaims.resource.k8s.io", Quantity::from_units(1));
    for request in list(&claim["spec"]["devices"], "requests") {
        let mut most: BTreeMap<String, i64> = BTreeMap::new();
        let alternatives = list(&request, "firstAvailable");
        let exact = request.get("exactly").filter(|_| alternatives.is_empty());
        for asked in alternatives.iter().chain(exact) {
            let entry = most.entry(class(asked)).or_default();
            *entry = (*entry).max(number(asked));
        }
        for (class, number) in most {
            let mut more = Amounts::default();
            more.set(format!("{class}{DEVICE_CLASS}"), Quantity::from_units(number));
            used.add(&more);
        }
    }
    used
}
