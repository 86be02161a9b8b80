//! Deployments.

use serde_json::{Value, json};

use crate::kinds::at::{At, same};
use crate::kinds::checks::warn;
use crate::kinds::checks::workload;
use crate::kinds::core::podtemplate::template_warnings;
use crate::kinds::defaults::{
    Lit::I,
    Object,
    Rule::{In, Nil, Run},
    fill, map_mut, text,
};
use crate::kinds::kind::{Kind, spec_differs};
use crate::kinds::pod::defaults::TEMPLATE;

/// Deployments.
pub(crate) static KIND: Kind = Kind {
    defaults: &[
        In(
            &["spec"],
            &[
                Nil("replicas", I(1)),
                Run(strategy),
                Nil("revisionHistoryLimit", I(10)),
                Nil("progressDeadlineSeconds", I(600)),
            ],
        ),
        In(&["spec"], TEMPLATE),
    ],
    counts: |new, old| {
        let annotations = |object: &Value| object.pointer("/metadata/annotations").cloned();
        spec_differs(new, old) || !same(annotations(new).as_ref(), annotations(old).as_ref())
    },
    prepare_status: |_, new, old| {
        let labels = old.pointer("/metadata/labels").cloned();
        let metadata = copepod_api::meta::metadata_mut(new);
        match labels {
            Some(labels) => drop(metadata.insert("labels".to_owned(), labels)),
            None => drop(metadata.remove("labels")),
        }
    },
    validate: |deployment| validate(&deployment.get("spec")),
    validate_update: Some(|new, old| {
        validate(&new.get("spec"));
        new.at("spec.selector").immutable(&old.at("spec.selector"));
    }),
    validate_status: |new, old| {
        workload::counts(
            &new.get("status"),
            &[
                "observedGeneration",
                "replicas",
                "unavailableReplicas",
                "terminatingReplicas",
                "collisionCount",
            ],
            &["updatedReplicas", "readyReplicas", "availableReplicas"],
        );
        workload::collisions(&new.get("status"), &old.get("status"));
    },
    warnings: |new, old| {
        let mut warnings = warn::names_pods(new, old);
        warnings.extend(template_warnings(new, old, "/spec/template", "spec.template"));
        warnings
    },
    ..Kind::WITH_STATUS
};

fn strategy(spec: &mut Object) {
    let strategy = map_mut(spec, "strategy");
    if text(strategy, "type").is_empty() {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
    }
    if text(strategy, "type") == "RollingUpdate" {
        fill(strategy, "rollingUpdate", json!({}));
        let rolling = map_mut(strategy, "rollingUpdate");
        fill(rolling, "maxUnavailable", "25%");
        fill(rolling, "maxSurge", "25%");
    }
}

fn validate(spec: &At<'_>) {
    spec.get("replicas").not_negative();
    workload::selected_template(spec, "ReplicaSet", "empty selector is invalid for deployment");
    check_strategy(&spec.get("strategy"));
    spec.get("minReadySeconds").not_negative();
    spec.get("revisionHistoryLimit").not_negative();
    let deadline = spec.get("progressDeadlineSeconds");
    deadline.not_negative();
    if deadline.int().is_some_and(|n| n <= spec.get("minReadySeconds").int().unwrap_or(0)) {
        deadline.invalid("must be greater than minReadySeconds");
    }
}

fn check_strategy(at: &At<'_>) {
    let rolling = at.get("rollingUpdate");
    match at.get("type").str() {
        "Recreate" => {
            if rolling.present() {
                rolling.forbidden("may not be specified when strategy `type` is 'Recreate'");
            }
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            workload::int_or_percent(&unavailable);
            workload::int_or_percent(&surge);
            if workload::number(&unavailable) == 0 && workload::number(&surge) == 0 {
                unavailable.invalid("may not be 0 when `maxSurge` is 0");
            }
            workload::at_most_all(&unavailable);
        }
        _ => at.not_supported(&["Recreate", "RollingUpdate"]),
    }
}
