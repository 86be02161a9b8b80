//! Resource quotas.

use crate::kinds::defaults::Rule::{Amounts, In};
use crate::kinds::kind::Kind;

/// Resource quotas.
pub(crate) static KIND: Kind = Kind {
    reset_status: true,
    defaults: &[In(&["spec", "status"], &[Amounts(&["hard", "used"])])],
    ..Kind::PLAIN
};
