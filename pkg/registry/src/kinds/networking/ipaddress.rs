//! Addresses in use by services.

use crate::kinds::kind::Kind;

/// Addresses in use.
pub(crate) static KIND: Kind = Kind { ..Kind::PLAIN };
