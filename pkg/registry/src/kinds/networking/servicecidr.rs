//! Ranges of service addresses.

use crate::kinds::kind::{Kind, keep_meta};

/// Ranges of service addresses.
pub(crate) static KIND: Kind =
    Kind { reset_status: true, prepare_status: |_, new, old| keep_meta(new, old), ..Kind::PLAIN };
