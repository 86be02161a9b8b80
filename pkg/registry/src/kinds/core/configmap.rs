//! ConfigMaps.

use crate::kinds::kind::Kind;

/// ConfigMaps.
pub(crate) static KIND: Kind = Kind { ..Kind::PLAIN };
