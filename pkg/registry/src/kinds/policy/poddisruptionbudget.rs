//! Pod disruption budgets.

use crate::kinds::at::At;
use crate::kinds::checks::{labels, workload};
use crate::kinds::kind::Kind;

/// Pod disruption budgets.
pub(crate) static KIND: Kind = Kind {
    unconditional_update: false,
    validate: |budget| spec(&budget.get("spec")),
    validate_status: |new, _| {
        for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            new.get("status").get(field).not_negative();
        }
    },
    name: copepod_api::names::path_segment,
    ..Kind::WITH_STATUS
};

fn spec(at: &At<'_>) {
    let bounds = ["minAvailable", "maxUnavailable"].map(|field| at.get(field));
    if bounds.iter().all(At::present) {
        at.invalid("minAvailable and maxUnavailable cannot be both set");
    }
    for bound in &bounds {
        workload::int_or_percent(bound);
        workload::at_most_all(bound);
    }
    labels::selector(&at.get("selector"));
    at.get("unhealthyPodEvictionPolicy").one_of(&["AlwaysAllow", "IfHealthyBudget"]);
}
