//! Endpoint slices.

use crate::kinds::at::same;
use crate::kinds::defaults::{
    Lit::S,
    Rule::{Each, Nil},
};
use crate::kinds::kind::{Kind, body_differs};

/// Endpoint slices.
pub(crate) static KIND: Kind = Kind {
    defaults: &[Each(&["ports"], &[Nil("name", S("")), Nil("protocol", S("TCP"))])],
    generation: true,
    counts: |new, old| {
        body_differs(new, old) || !same(new.pointer("/metadata/labels"), old.pointer("/metadata/labels"))
    },
    ..Kind::PLAIN
};
