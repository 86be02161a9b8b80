//! Custom resource definitions.

mod schema;
mod validate;

use serde_json::{Value, json};

use crate::kinds::defaults::{
    Lit::I,
    Object,
    Rule::{In, Nil, Run},
    fill, is_zero, map_mut, text,
};
use crate::kinds::kind::Kind;

/// Custom resource definitions.
pub(crate) static KIND: Kind = Kind {
    defaults: &[
        In(
            &["spec"],
            &[
                In(&["names"], &[Run(names)]),
                Run(|spec| fill(spec, "conversion", json!({"strategy": "None"}))),
                In(
                    &["conversion"],
                    &[In(
                        &["webhook"],
                        &[In(&["clientConfig"], &[In(&["service"], &[Nil("port", I(443))])])],
                    )],
                ),
            ],
        ),
        Run(first_stored_version),
    ],
    prepare_create: |_, new| store_version(new),
    prepare_update: |_, new, _| store_version(new),
    validate: validate::create,
    validate_update: Some(validate::update),
    ..Kind::WITH_STATUS
};

fn names(names: &mut Object) {
    let kind = text(names, "kind").to_owned();
    if kind.is_empty() {
        return;
    }
    if text(names, "singular").is_empty() {
        names.insert("singular".to_owned(), kind.to_lowercase().into());
    }
    if text(names, "listKind").is_empty() {
        names.insert("listKind".to_owned(), format!("{kind}List").into());
    }
}

fn store_version(definition: &mut Value) {
    if let Some(definition) = definition.as_object_mut() {
        stored_versions(definition);
    }
}

fn first_stored_version(definition: &mut Object) {
    let stored = definition.get("status").and_then(|s| s.get("storedVersions"));
    if stored.is_none_or(is_zero) {
        stored_versions(definition);
    }
}

/// The storage version is among the versions that objects may be stored in.
fn stored_versions(definition: &mut Object) {
    let versions = definition.get("spec").and_then(|s| s.get("versions")).and_then(Value::as_array);
    let storage = versions.into_iter().flatten().find(|v| v.get("storage") == Some(&Value::Bool(true)));
    let Some(name) = storage.and_then(|v| v.get("name")).cloned() else { return };
    let status = map_mut(definition, "status");
    let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
    if stored.is_null() {
        *stored = json!([]);
    }
    if let Some(list) = stored.as_array_mut()
        && !list.contains(&name)
    {
        list.push(name);
    }
}
