//! Daemon sets.

use serde_json::{Value, json};

use crate::hooks::HookContext;
use crate::kinds::at::same;
use crate::kinds::defaults::{
    Lit::I,
    Object,
    Rule::{In, Nil, Run},
    fill, map_mut, text,
};
use crate::kinds::kind::Kind;
use crate::kinds::pod::defaults::TEMPLATE;

/// Where the template's own generation lives since `apps/v1` lost the field for it.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Daemon sets.
pub(crate) static KIND: Kind = Kind {
    defaults: &[
        In(&["spec"], &[Run(strategy), Nil("revisionHistoryLimit", I(10))]),
        In(&["spec"], TEMPLATE),
    ],
    prepare_create: |_, new| {
        let generation = template_generation(new).max(1);
        set_template_generation(new, generation);
    },
    prepare_update,
    ..Kind::WITH_STATUS
};

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
