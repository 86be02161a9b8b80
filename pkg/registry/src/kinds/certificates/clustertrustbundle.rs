//! Cluster trust bundles.

use crate::kinds::kind::Kind;

/// Cluster trust bundles.
pub(crate) static KIND: Kind = Kind { unconditional_update: false, ..Kind::PLAIN };
