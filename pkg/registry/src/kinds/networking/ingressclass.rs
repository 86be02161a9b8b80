//! Ingress classes.

use copepod_api::{FieldError, names};

use crate::kinds::at::At;
use crate::kinds::checks::text;
use crate::kinds::defaults::{
    Lit::S,
    Rule::{In, Nil},
};
use crate::kinds::kind::Kind;

/// Ingress classes.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(&["spec"], &[In(&["parameters"], &[Nil("scope", S("Cluster"))])])],
    generation: true,
    validate: |class| spec(&class.get("spec")),
    validate_update: Some(|new, old| {
        new.at("spec.controller").immutable(&old.at("spec.controller"));
        spec(&new.get("spec"));
    }),
    ..Kind::PLAIN
};

fn spec(at: &At<'_>) {
    let controller = at.get("controller");
    if controller.str().len() > 250 {
        controller.push(FieldError::too_long(controller.path(), 250));
    }
    text::prefixed_path(&controller);
    let parameters = at.get("parameters");
    if !parameters.present() {
        return;
    }
    parameters.get("apiGroup").text(names::dns1123_subdomain);
    for field in ["kind", "name"] {
        if parameters.get(field).need() {
            parameters.get(field).text(names::path_segment);
        }
    }
    let namespace = parameters.get("namespace");
    match parameters.get("scope").str() {
        "Namespace" if !namespace.present() => namespace.required("`parameters.scope` is set to 'Namespace'"),
        "Namespace" => namespace.text(names::dns1123_label),
        "Cluster" if namespace.present() => namespace.forbidden("`parameters.scope` is set to 'Cluster'"),
        "Cluster" => {}
        _ => parameters.get("scope").not_supported(&["Cluster", "Namespace"]),
    }
}
