//! Replication controllers.

use copepod_api::LabelSelector;
use serde_json::Value;

use crate::kinds::at::At;
use crate::kinds::checks::warn;
use crate::kinds::checks::workload;
use crate::kinds::defaults::{
    Lit::I,
    Object,
    Rule::{In, Nil, Run},
    is_zero, map_mut,
};
use crate::kinds::kind::Kind;
use crate::kinds::pod::defaults::TEMPLATE;
use crate::kinds::pod::validate;

/// Replication controllers.
pub(crate) static KIND: Kind = Kind {
    defaults: &[Run(labels), In(&["spec"], &[Nil("replicas", I(1))]), In(&["spec"], TEMPLATE)],
    validate: |rc| spec(&rc.get("spec")),
    validate_status: |new, _| {
        workload::counts(
            &new.get("status"),
            &["replicas", "observedGeneration"],
            &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        );
    },
    warnings: |new, old| {
        let mut warnings = warn::names_pods(new, old);
        warnings.extend(super::podtemplate::template_warnings(new, old, "/spec/template", "spec.template"));
        warnings
    },
    ..Kind::WITH_STATUS
};

/// The template's labels stand in for a missing selector and missing labels.
fn labels(controller: &mut Object) {
    let labels = controller.get("spec").and_then(|s| s.pointer("/template/metadata/labels"));
    let Some(labels) = labels.filter(|l| !is_zero(l)).cloned() else { return };
    for (holder, field) in [("spec", "selector"), ("metadata", "labels")] {
        let map = map_mut(controller, holder);
        if map.get(field).is_none_or(|v: &Value| is_zero(v)) {
            map.insert(field.to_owned(), labels.clone());
        }
    }
}

fn spec(at: &At<'_>) {
    at.get("minReadySeconds").not_negative();
    at.get("selector").need();
    if at.get("replicas").present() {
        at.get("replicas").not_negative();
    } else {
        at.get("replicas").required("");
    }
    let template = at.get("template");
    if template.present() {
        workload::selects(&LabelSelector::from_map(at.get("selector").value()), &template);
        validate::template(&template);
        workload::always_restarted(&template, "ReplicationController");
    } else {
        template.required("");
    }
}
