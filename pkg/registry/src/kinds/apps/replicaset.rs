//! Replica sets.

use crate::kinds::at::At;
use crate::kinds::checks::warn;
use crate::kinds::checks::workload;
use crate::kinds::core::podtemplate::template_warnings;
use crate::kinds::defaults::{
    Lit::I,
    Rule::{In, Nil},
};
use crate::kinds::kind::Kind;
use crate::kinds::pod::defaults::TEMPLATE;

/// Replica sets.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(&["spec"], &[Nil("replicas", I(1))]), In(&["spec"], TEMPLATE)],
    validate: |rs| spec(&rs.get("spec")),
    validate_update: Some(|new, old| {
        spec(&new.get("spec"));
        new.at("spec.selector").immutable(&old.at("spec.selector"));
    }),
    validate_status: |new, _| {
        workload::counts(
            &new.get("status"),
            &["replicas", "observedGeneration", "terminatingReplicas"],
            &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        );
    },
    warnings: |new, old| {
        let mut warnings = warn::names_pods(new, old);
        warnings.extend(template_warnings(new, old, "/spec/template", "spec.template"));
        warnings
    },
    ..Kind::WITH_STATUS
};

fn spec(at: &At<'_>) {
    at.get("replicas").not_negative();
    at.get("minReadySeconds").not_negative();
    workload::selected_template(at, "ReplicaSet", "empty selector is invalid for deployment");
}
