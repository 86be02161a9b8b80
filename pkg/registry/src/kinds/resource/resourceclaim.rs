//! Resource claims and their templates.

use super::checks;
use crate::kinds::defaults::{
    Lit::{I, S},
    Object,
    Rule::{self, Each, In, Run, Zero},
    is_zero, text,
};
use crate::kinds::kind::{Kind, keep_meta};

const REQUEST: &[Rule] = &[
    Zero("allocationMode", S("ExactCount")),
    Run(count),
    Each(&["tolerations"], &[Zero("operator", S("Equal"))]),
];

const SPEC: &[Rule] = &[In(
    &["devices"],
    &[Each(&["requests"], &[In(&["exactly"], REQUEST), Each(&["firstAvailable"], REQUEST)])],
)];

fn count(request: &mut Object) {
    if text(request, "allocationMode") == "ExactCount" && request.get("count").is_none_or(is_zero) {
        crate::kinds::defaults::apply(&[Zero("count", I(1))], request);
    }
}

/// Resource claims.
pub(crate) static CLAIM: Kind = Kind {
    defaults: &[
        In(&["spec"], SPEC),
        In(
            &["status"],
            &[In(
                &["allocation"],
                &[In(
                    &["devices"],
                    &[Each(&["results"], &[Each(&["tolerations"], &[Zero("operator", S("Equal"))])])],
                )],
            )],
        ),
    ],
    reset_status: true,
    validate: |claim| checks::claim(&claim.get("spec")),
    validate_update: Some(|new, old| new.get("spec").fixed(&old.get("spec"))),
    prepare_status: |_, new, old| keep_meta(new, old),
    ..Kind::PLAIN
};

/// Templates of claims.
pub(crate) static TEMPLATE: Kind = Kind {
    defaults: &[In(&["spec"], &[In(&["spec"], SPEC)])],
    validate: |template| checks::claim(&template.at("spec.spec")),
    validate_update: Some(|new, old| new.get("spec").fixed(&old.get("spec"))),
    ..Kind::PLAIN
};
