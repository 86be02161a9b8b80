//! Priority levels.

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
    prepare_status: |_, new, old| keep_meta(new, old),
    ..Kind::WITH_STATUS
};
