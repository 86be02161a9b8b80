//! Daemon sets.

use copepod_api::LabelSelector;
use serde_json::{Value, json};

use crate::hooks::HookContext;
use crate::kinds::at::{At, same};
use crate::kinds::checks::{labels, workload};
use crate::kinds::core::podtemplate::template_warnings;
use crate::kinds::defaults::{
    Lit::I,
    Object,
    Rule::{In, Nil, Run},
    fill, map_mut, text,
};
use crate::kinds::kind::Kind;
use crate::kinds::pod::defaults::TEMPLATE;
use crate::kinds::pod::validate as pods;

/// Where the template's own generation lives since `apps/v1` lost the field for it.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Daemon sets.
pub(crate) static KIND: Kind = Kind {
    defaults: &[
        Run(carry_template_generation),
        In(&["spec"], &[Run(strategy), Nil("revisionHistoryLimit", I(10))]),
        In(&["spec"], TEMPLATE),
    ],
    prepare_create: |_, new| {
        let generation = template_generation(new).max(1);
        set_template_generation(new, generation);
    },
    prepare_update,
    validate: |set| validate(&set.get("spec")),
    validate_update: Some(|new, old| {
        validate(&new.get("spec"));
        new.at("spec.selector").immutable(&old.at("spec.selector"));
    }),
    validate_status: |new, old| {
        workload::counts(&new.get("status"), STATUS_COUNTS, &[]);
        workload::collisions(&new.get("status"), &old.get("status"));
    },
    warnings: |new, old| template_warnings(new, old, "/spec/template", "spec.template"),
    ..Kind::WITH_STATUS
};

/// Upstream's conversion always writes the annotation, so that whoever creates the object comes to own it.
fn carry_template_generation(set: &mut Object) {
    let annotations = map_mut(map_mut(set, "metadata"), "annotations");
    annotations.entry(TEMPLATE_GENERATION).or_insert_with(|| "0".into());
}

fn strategy(spec: &mut Object) {
    let strategy = map_mut(spec, "updateStrategy");
    if text(strategy, "type").is_empty() {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
    }
    if text(strategy, "type") == "RollingUpdate" {
        fill(strategy, "rollingUpdate", json!({}));
        let rolling = map_mut(strategy, "rollingUpdate");
        fill(rolling, "maxUnavailable", 1);
        fill(rolling, "maxSurge", 0);
    }
}

fn template_generation(set: &Value) -> i64 {
    copepod_api::meta::annotation(set, TEMPLATE_GENERATION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn set_template_generation(set: &mut Value, generation: i64) {
    let annotations = map_mut(copepod_api::meta::metadata_mut(set), "annotations");
    annotations.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
}

/// The template's generation rises with each change of the template, whatever the client writes.
fn prepare_update(_cx: &HookContext<'_>, new: &mut Value, old: &Value) {
    let changed = !same(new.pointer("/spec/template"), old.pointer("/spec/template"));
    set_template_generation(new, template_generation(old) + i64::from(changed));
}

const STATUS_COUNTS: &[&str] = &[
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
];

fn validate(spec: &At<'_>) {
    let (selector, template) = (spec.get("selector"), spec.get("template"));
    labels::selector(&selector);
    if let Ok(parsed) = LabelSelector::from_object(selector.value()) {
        workload::selects(&parsed, &template);
    }
    if selector.present() && labels::selects_all(&selector) {
        selector.invalid("empty selector is invalid for daemonset");
    }
    pods::template(&template);
    workload::always_restarted(&template, "DaemonSet");
    spec.get("minReadySeconds").not_negative();
    check_strategy(&spec.get("updateStrategy"));
    spec.get("revisionHistoryLimit").not_negative();
}

fn check_strategy(at: &At<'_>) {
    match at.get("type").str() {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = at.get("rollingUpdate");
            let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            workload::int_or_percent(&unavailable);
            workload::int_or_percent(&surge);
            workload::at_most_all(&unavailable);
            workload::at_most_all(&surge);
            match (workload::number(&unavailable) != 0, workload::number(&surge) != 0) {
                (true, true) => surge.invalid("may not be set when maxUnavailable is non-zero"),
                (false, false) => unavailable.required("cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        _ => at.not_supported(&["RollingUpdate", "OnDelete"]),
    }
}
