//! Pods and everything that contains a pod's spec.

pub(crate) mod container;
pub(crate) mod defaults;
mod diff;
pub(crate) mod env;
mod gated;
pub(crate) mod mounts;
mod overlaps;
mod parts;
mod placement;
pub(crate) mod prepare;
mod probes;
mod projected;
pub(crate) mod resources;
mod security;
pub(crate) mod spec;
pub(crate) mod validate;
pub(crate) mod volumes;
mod warnings;

pub(crate) use diff::render as diff;
pub(crate) use warnings::{OLD_VOLUMES, template as template_warnings};

use serde_json::{Value, json};

use super::kind::Kind;

/// Pods.
pub(crate) static KIND: Kind = Kind {
    defaults: defaults::POD,
    generation: true,
    prepare_create: prepare::create,
    prepare_update: prepare::update,
    prepare_status: prepare::status,
    validate: validate::create,
    validate_update: Some(validate::update),
    validate_part: parts::check,
    validate_status: validate::status,
    warnings: warnings::pod,
    grace: prepare::grace,
    ..Kind::PLAIN
};

/// Where annotations name the AppArmor profile of a container.
pub(crate) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// The profile that such an annotation names.
pub(crate) fn app_armor_profile(annotation: &str) -> Option<Value> {
    Some(match annotation {
        "unconfined" => json!({"type": "Unconfined"}),
        "runtime/default" => json!({"type": "RuntimeDefault"}),
        local => {
            json!({"type": "Localhost", "localhostProfile": local.strip_prefix("localhost/").filter(|p| !p.is_empty())?})
        }
    })
}

/// The body of `pods/binding`.
pub(crate) static BINDING: Kind = Kind {
    validate: |binding| {
        let target = binding.get("target");
        if !target.is("kind", "Node") && !target.get("kind").is_empty() {
            target.get("kind").not_supported(&["Node", "<empty>"]);
        }
        target.get("name").need();
    },
    ..Kind::PLAIN
};
