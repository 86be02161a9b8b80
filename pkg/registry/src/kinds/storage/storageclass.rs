//! Storage classes.

use crate::kinds::defaults::{Lit::S, Rule::Nil};
use crate::kinds::kind::Kind;

/// Storage classes.
pub(crate) static KIND: Kind = Kind {
    defaults: &[Nil("reclaimPolicy", S("Delete")), Nil("volumeBindingMode", S("Immediate"))],
    ..Kind::PLAIN
};
