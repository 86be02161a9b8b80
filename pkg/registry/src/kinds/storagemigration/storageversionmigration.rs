//! Storage version migrations.

use crate::kinds::kind::{Kind, keep_meta};

/// Storage version migrations.
pub(crate) static KIND: Kind = Kind {
    reset_status: true,
    unconditional_update: false,
    prepare_status: |_, new, old| keep_meta(new, old),
    ..Kind::PLAIN
};
