//! Controller revisions.

use crate::kinds::kind::Kind;

/// Controller revisions.
pub(crate) static KIND: Kind = Kind { ..Kind::PLAIN };
