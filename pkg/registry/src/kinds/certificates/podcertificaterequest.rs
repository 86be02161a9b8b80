//! Pod certificate requests.

use crate::kinds::defaults::{
    Lit::I,
    Rule::{In, Nil},
};
use crate::kinds::kind::{Kind, keep_meta};

/// Pod certificate requests.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(&["spec"], &[Nil("maxExpirationSeconds", I(86400))])],
    reset_status: true,
    unconditional_update: false,
    prepare_status: |_, new, old| keep_meta(new, old),
    ..Kind::PLAIN
};
