//! Priority classes.

use crate::kinds::defaults::{Lit::S, Rule::Nil};
use crate::kinds::kind::Kind;

/// Priority classes.
pub(crate) static KIND: Kind = Kind {
    defaults: &[Nil("preemptionPolicy", S("PreemptLowerPriority"))],
    generation: true,
    counts: |_, _| false,
    ..Kind::PLAIN
};
