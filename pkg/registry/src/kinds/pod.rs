//! Pods and everything that contains a pod's spec.

pub(crate) mod defaults;
pub(crate) mod prepare;
pub(crate) mod resources;

use super::kind::Kind;

/// Pods.
pub(crate) static KIND: Kind = Kind {
    defaults: defaults::POD,
    generation: true,
    prepare_create: prepare::create,
    prepare_update: prepare::update,
    prepare_status: prepare::status,
    grace: prepare::grace,
    ..Kind::PLAIN
};

/// The body of `pods/binding`.
pub(crate) static BINDING: Kind = Kind { ..Kind::PLAIN };
