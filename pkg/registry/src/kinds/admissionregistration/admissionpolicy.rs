//! Admission policies.

use crate::kinds::defaults::{
    Lit::{Map, S},
    Rule::{self, Each, In, Nil},
};
use crate::kinds::kind::{Kind, keep_meta};

/// Defaults of what a policy or binding matches.
pub(crate) const MATCH: &[Rule] = &[
    Nil("matchPolicy", S("Equivalent")),
    Nil("namespaceSelector", Map),
    Nil("objectSelector", Map),
    Each(&["resourceRules", "excludeResourceRules"], &[Nil("scope", S("*"))]),
];

const SPEC: &[Rule] = &[In(&["spec"], &[Nil("failurePolicy", S("Fail")), In(&["matchConstraints"], MATCH)])];

/// Validating policies.
pub(crate) static VALIDATING: Kind = Kind {
    defaults: SPEC,
    unconditional_update: false,
    prepare_status: |_, new, old| keep_meta(new, old),
    ..Kind::WITH_STATUS
};

/// Mutating policies.
pub(crate) static MUTATING: Kind =
    Kind { defaults: SPEC, generation: true, unconditional_update: false, ..Kind::PLAIN };
