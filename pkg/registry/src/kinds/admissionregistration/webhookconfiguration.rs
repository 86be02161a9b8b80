//! Configurations of admission webhooks.

use crate::kinds::defaults::{
    Lit::{I, Map, S},
    Rule::{self, Each, In, Nil},
};
use crate::kinds::kind::{Kind, body_differs};

const WEBHOOK: &[Rule] = &[
    Nil("failurePolicy", S("Fail")),
    Nil("matchPolicy", S("Equivalent")),
    Nil("namespaceSelector", Map),
    Nil("objectSelector", Map),
    Nil("timeoutSeconds", I(10)),
    Each(&["rules"], &[Nil("scope", S("*"))]),
    In(&["clientConfig"], &[In(&["service"], &[Nil("port", I(443))])]),
];

/// Validating webhooks.
pub(crate) static VALIDATING: Kind = Kind {
    defaults: &[Each(&["webhooks"], WEBHOOK)],
    generation: true,
    counts: body_differs,
    unconditional_update: false,
    ..Kind::PLAIN
};

/// Mutating webhooks.
pub(crate) static MUTATING: Kind = Kind {
    defaults: &[Each(&["webhooks"], WEBHOOK), Each(&["webhooks"], &[Nil("reinvocationPolicy", S("Never"))])],
    generation: true,
    counts: body_differs,
    unconditional_update: false,
    ..Kind::PLAIN
};
