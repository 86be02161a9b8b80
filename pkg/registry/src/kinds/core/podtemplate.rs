//! Pod templates.

use crate::kinds::kind::{Kind, body_differs};
use crate::kinds::pod::defaults::TEMPLATE;

/// Pod templates.
pub(crate) static KIND: Kind = Kind { defaults: TEMPLATE, generation: true, counts: body_differs, ..Kind::PLAIN };
