//! Pod disruption budgets.

use crate::kinds::kind::Kind;

/// Pod disruption budgets.
pub(crate) static KIND: Kind = Kind { unconditional_update: false, ..Kind::WITH_STATUS };
