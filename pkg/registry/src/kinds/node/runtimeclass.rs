//! Runtime classes.

use crate::kinds::defaults::Rule::{Amounts, In};
use crate::kinds::kind::Kind;

/// Runtime classes.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(&["overhead"], &[Amounts(&["podFixed"])])],
    unconditional_update: false,
    ..Kind::PLAIN
};
