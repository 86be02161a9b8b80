//! Capacity that a CSI driver offers.

use crate::kinds::kind::Kind;

/// CSI storage capacities.
pub(crate) static KIND: Kind = Kind { unconditional_update: false, ..Kind::PLAIN };
