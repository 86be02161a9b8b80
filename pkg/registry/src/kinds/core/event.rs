//! Events, as the core group shows them.

use crate::kinds::kind::Kind;

/// Events.
pub(crate) static KIND: Kind = Kind { create_on_update: true, ..Kind::PLAIN };
