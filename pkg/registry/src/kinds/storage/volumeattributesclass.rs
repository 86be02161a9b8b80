//! Volume attributes classes.

use crate::kinds::kind::Kind;

/// Volume attributes classes.
pub(crate) static KIND: Kind = Kind { ..Kind::PLAIN };
