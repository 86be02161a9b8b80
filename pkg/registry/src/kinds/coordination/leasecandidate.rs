//! Candidates for leases.

use crate::kinds::kind::Kind;

/// Lease candidates.
pub(crate) static KIND: Kind = Kind { create_on_update: true, unconditional_update: false, ..Kind::PLAIN };
