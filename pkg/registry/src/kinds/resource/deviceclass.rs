//! Device classes.

use crate::kinds::kind::Kind;

/// Device classes.
pub(crate) static KIND: Kind = Kind { generation: true, ..Kind::PLAIN };
