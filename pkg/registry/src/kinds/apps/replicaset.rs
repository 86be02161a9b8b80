//! Replica sets.

use crate::kinds::defaults::{
    Lit::I,
    Rule::{In, Nil},
};
use crate::kinds::kind::Kind;
use crate::kinds::pod::defaults::TEMPLATE;

/// Replica sets.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(&["spec"], &[Nil("replicas", I(1))]), In(&["spec"], TEMPLATE)],
    ..Kind::WITH_STATUS
};
