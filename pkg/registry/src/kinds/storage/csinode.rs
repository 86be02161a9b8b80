//! What CSI drivers a node has.

use crate::kinds::kind::Kind;

/// CSI nodes.
pub(crate) static KIND: Kind = Kind { unconditional_update: false, ..Kind::PLAIN };
