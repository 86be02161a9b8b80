//! Priority levels.

use crate::kinds::at::At;
use crate::kinds::defaults::{
    Lit::I,
    Rule::{In, Nil, Zero},
};
use crate::kinds::kind::{Kind, keep_meta};

/// Priority levels.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(
        &["spec"],
        &[
            In(&["exempt"], &[Nil("nominalConcurrencyShares", I(0)), Nil("lendablePercent", I(0))]),
            In(
                &["limited"],
                &[
                    Nil("nominalConcurrencyShares", I(30)),
                    Nil("lendablePercent", I(0)),
                    In(
                        &["limitResponse"],
                        &[In(
                            &["queuing"],
                            &[Zero("handSize", I(8)), Zero("queues", I(64)), Zero("queueLengthLimit", I(50))],
                        )],
                    ),
                ],
            ),
        ],
    )],
    validate,
    prepare_status: |_, new, old| keep_meta(new, old),
    ..Kind::WITH_STATUS
};

fn validate(level: &At<'_>) {
    let spec = level.get("spec");
    let kind = spec.get("type");
    if (level.at("metadata.name").str() == "exempt") != (kind.str() == "Exempt") {
        kind.invalid_as(kind.str(), "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    let (limited, exempt) = (spec.get("limited"), spec.get("exempt"));
    match kind.str() {
        "Exempt" => {
            if limited.present() {
                limited.forbidden("must be nil if the type is not Limited");
            }
            shares(&exempt);
        }
        "Limited" => {
            if exempt.present() {
                exempt.forbidden("must be nil if the type is Limited");
            }
            if limited.present() {
                check_limited(&limited);
            } else {
                limited.required("must not be empty when type is Limited");
            }
        }
        "" => kind.required(""),
        _ => kind.not_supported(&["Exempt", "Limited"]),
    }
}

fn shares(at: &At<'_>) {
    let (shares, lendable) = (at.get("nominalConcurrencyShares"), at.get("lendablePercent"));
    if shares.int().is_some_and(|n| n < 0) {
        shares.invalid("must be a non-negative integer");
    }
    lendable.range(0, 100);
}

fn check_limited(at: &At<'_>) {
    shares(at);
    let borrowing = at.get("borrowingLimitPercent");
    if borrowing.int().is_some_and(|n| n < 0) {
        borrowing.invalid("if specified, must be a non-negative integer");
    }
    let response = at.get("limitResponse");
    let queuing = response.get("queuing");
    match response.get("type").str() {
        "Reject" => {
            if queuing.present() {
                queuing.forbidden("must be nil if limited.limitResponse.type is not Limited");
            }
        }
        "Queue" if !queuing.present() => {
            queuing.required("must not be empty if limited.limitResponse.type is Limited");
        }
        "Queue" => check_queuing(&queuing),
        "" => response.get("type").required(""),
        _ => response.get("type").not_supported(&["Queue", "Reject"]),
    }
}

fn check_queuing(at: &At<'_>) {
    let number = |field: &str| at.get(field).int().unwrap_or(0);
    for field in ["queueLengthLimit", "queues", "handSize"] {
        if number(field) <= 0 {
            at.get(field).invalid("must be positive");
        }
    }
    if number("queues") > 10_000_000 {
        at.get("queues").invalid("must not be greater than 10000000");
    }
    if number("handSize") > 0 && number("handSize") > number("queues") {
        at.get("handSize").invalid(format!("should not be greater than queues ({})", number("queues")));
    }
}
