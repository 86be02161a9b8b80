//! Endpoints, the older form of EndpointSlices.

use crate::kinds::defaults::{
    Lit::S,
    Rule::{Each, Zero},
};
use crate::kinds::kind::Kind;

/// Endpoints.
pub(crate) static KIND: Kind = Kind {
    defaults: &[Each(&["subsets"], &[Each(&["ports"], &[Zero("protocol", S("TCP"))])])],
    create_on_update: true,
    ..Kind::PLAIN
};
