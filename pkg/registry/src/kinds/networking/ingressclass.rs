//! Ingress classes.

use crate::kinds::defaults::{
    Lit::S,
    Rule::{In, Nil},
};
use crate::kinds::kind::Kind;

/// Ingress classes.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(&["spec"], &[In(&["parameters"], &[Nil("scope", S("Cluster"))])])],
    generation: true,
    ..Kind::PLAIN
};
