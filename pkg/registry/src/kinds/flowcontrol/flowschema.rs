//! Flow schemas.

use crate::kinds::defaults::{
    Lit::I,
    Rule::{In, Zero},
};
use crate::kinds::kind::{Kind, keep_meta};

/// Flow schemas.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(&["spec"], &[Zero("matchingPrecedence", I(1000))])],
    prepare_status: |_, new, old| keep_meta(new, old),
    ..Kind::WITH_STATUS
};
