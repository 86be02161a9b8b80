//! Ingresses.

use crate::kinds::kind::Kind;

/// Ingresses.
pub(crate) static KIND: Kind = Kind { ..Kind::WITH_STATUS };
