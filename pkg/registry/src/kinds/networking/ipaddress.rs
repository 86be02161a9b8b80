//! Addresses in use by services.

use copepod_api::names;

use crate::kinds::at::At;
use crate::kinds::checks::ip;
use crate::kinds::kind::{Kind, collect};

/// Addresses in use.
pub(crate) static KIND: Kind = Kind {
    validate: |address| parent(&address.at("spec.parentRef")),
    validate_update: Some(|new, old| new.at("spec.parentRef").fixed(&old.at("spec.parentRef"))),
    name,
    ..Kind::PLAIN
};

/// The name is the address in canonical form.
fn name(name: &str) -> Vec<String> {
    let value = serde_json::Value::from(name);
    let errors = collect(|sink| ip::canonical_address(&At::root(&value, sink)));
    errors.into_iter().map(|error| error.detail).collect()
}

fn parent(at: &At<'_>) {
    if !at.present() {
        return at.required("");
    }
    let group = at.get("group");
    if !group.is_empty() {
        group.text(names::dns1123_subdomain);
    }
    for field in ["resource", "name"] {
        if at.get(field).need() {
            at.get(field).text(names::path_segment);
        }
    }
    at.get("namespace").text(names::path_segment);
}
