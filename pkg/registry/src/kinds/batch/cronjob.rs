//! Cron jobs.

use super::job::FAILURE_POLICY;
use crate::kinds::defaults::{
    Lit::{B, I, S},
    Rule::{In, Nil, Zero},
};
use crate::kinds::kind::Kind;
use crate::kinds::pod::defaults::TEMPLATE;

/// Cron jobs.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(
        &["spec"],
        &[
            Zero("concurrencyPolicy", S("Allow")),
            Nil("suspend", B(false)),
            Nil("successfulJobsHistoryLimit", I(3)),
            Nil("failedJobsHistoryLimit", I(1)),
            In(&["jobTemplate"], &[In(&["spec"], FAILURE_POLICY), In(&["spec"], TEMPLATE)]),
        ],
    )],
    ..Kind::WITH_STATUS
};
