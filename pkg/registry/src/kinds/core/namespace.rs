//! Namespaces.

use serde_json::{Value, json};

use crate::hooks::HookContext;
use crate::kinds::at::At;
use crate::kinds::defaults::{
    Object,
    Rule::{self, Run},
    map_mut, text,
};
use crate::kinds::kind::Kind;

const FINALIZER: &str = "kubernetes";

/// Namespaces.
pub(crate) static KIND: Kind = Kind {
    defaults: DEFAULTS,
    prepare_create,
    prepare_update,
    validate: |namespace| {
        let list = namespace.at("spec.finalizers");
        list.strings().into_iter().for_each(|name| finalizer(&list, name));
    },
    validate_update: Some(|new, _| {
        for at in new.at("spec.finalizers").items() {
            finalizer(&at, at.str());
        }
    }),
    validate_status: |new, _| {
        let phase = new.get("status").get("phase");
        let (wanted, is) = match new.at("metadata.deletionTimestamp").present() {
            true => ("Terminating", "not empty"),
            false => ("Active", "empty"),
        };
        if phase.str() != wanted {
            new.get("status")
                .get("Phase")
                .invalid_as(phase.str(), format!("may only be '{wanted}' if `deletionTimestamp` is {is}"));
        }
    },
    name: copepod_api::names::dns1123_label,
    ..Kind::PLAIN
};

const DEFAULTS: &[Rule] = &[Run(name_label), Run(active)];

/// Every namespace carries its name as a label.
fn name_label(namespace: &mut Object) {
    let metadata = map_mut(namespace, "metadata");
    let name = text(metadata, "name").to_owned();
    if !name.is_empty() {
        map_mut(metadata, "labels").insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
}

fn active(namespace: &mut Object) {
    let status = map_mut(namespace, "status");
    if text(status, "phase").is_empty() {
        status.insert("phase".to_owned(), "Active".into());
    }
}

fn prepare_create(_cx: &HookContext<'_>, new: &mut Value) {
    let Some(object) = new.as_object_mut() else { return };
    object.insert("status".to_owned(), json!({"phase": "Active"}));
    name_label(object);
    let finalizers = map_mut(object, "spec").entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|f| f == FINALIZER)
    {
        list.push(FINALIZER.into());
    }
}

/// Finalizers change through `finalize` only, which in turn changes nothing else of the spec.
fn prepare_update(cx: &HookContext<'_>, new: &mut Value, old: &Value) {
    if cx.subresource != Some("finalize")
        && let Some(object) = new.as_object_mut()
    {
        let spec = map_mut(object, "spec");
        match old.pointer("/spec/finalizers") {
            Some(kept) => drop(spec.insert("finalizers".to_owned(), kept.clone())),
            None => drop(spec.remove("finalizers")),
        }
        name_label(object);
    }
}

fn finalizer(at: &At<'_>, name: &str) {
    let errors = copepod_api::names::qualified_name(name);
    errors.into_iter().for_each(|error| at.invalid_as(name, error));
    if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
        at.invalid_as(name, "name is neither a standard finalizer name nor is it fully qualified");
    }
}
