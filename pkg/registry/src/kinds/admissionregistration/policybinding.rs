//! Bindings of admission policies.

use super::admissionpolicy::MATCH;
use crate::kinds::defaults::Rule::In;
use crate::kinds::kind::Kind;

const BINDING: Kind = Kind {
    defaults: &[In(&["spec"], &[In(&["matchResources"], MATCH)])],
    generation: true,
    unconditional_update: false,
    ..Kind::PLAIN
};

/// Bindings of validating policies.
pub(crate) static VALIDATING: Kind = Kind { ..BINDING };

/// Bindings of mutating policies.
pub(crate) static MUTATING: Kind = Kind { ..BINDING };
