//! Namespaces.

use serde_json::{Value, json};

use crate::hooks::HookContext;
use crate::kinds::defaults::{
    Object,
    Rule::{Run, self},
    map_mut, text,
};
use crate::kinds::kind::Kind;

const FINALIZER: &str = "kubernetes";

/// Namespaces.
pub(crate) static KIND: Kind = Kind {
    defaults: DEFAULTS,
    prepare_create,
    prepare_update,
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
