//! Jobs.

pub(crate) mod policies;
pub(crate) mod validate;

use serde_json::{Value, json};

use crate::hooks::HookContext;
use crate::kinds::checks::warn;
use crate::kinds::core::podtemplate::template_warnings;
use crate::kinds::defaults::{
    Lit::{B, I, S},
    Object,
    Rule::{self, Each, In, Nil, Run, Zero},
    absent, fill, is_zero, map_mut,
};
use crate::kinds::kind::Kind;
use crate::kinds::pod::defaults::TEMPLATE;

/// Defaults of a job's spec that templates of jobs get, too.
pub(crate) const FAILURE_POLICY: &[Rule] = &[In(
    &["podFailurePolicy"],
    &[Each(&["rules"], &[Each(&["onPodConditions"], &[Zero("status", S("True"))])])],
)];

/// Jobs.
pub(crate) static KIND: Kind = Kind {
    defaults: &[
        Run(labels_of_template),
        In(
            &["spec"],
            &[
                Run(counts),
                Nil("completionMode", S("NonIndexed")),
                Nil("suspend", B(false)),
                Nil("parallelism", I(1)),
                Nil("manualSelector", B(false)),
            ],
        ),
        In(&["spec"], FAILURE_POLICY),
        In(&["spec"], TEMPLATE),
    ],
    prepare_create: |_: &HookContext<'_>, job| generate_selector(job),
    validate: validate::create,
    validate_update: Some(validate::update),
    validate_status: validate::status,
    warnings,
    ..Kind::WITH_STATUS
};

fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = warn::names_pods(new, old);
    warnings.extend(template_warnings(new, old, "/spec/template", "spec.template"));
    warnings
}

fn counts(spec: &mut Object) {
    if absent(spec, "completions") && absent(spec, "parallelism") {
        spec.insert("completions".to_owned(), 1.into());
    }
    let limit = if absent(spec, "backoffLimitPerIndex") { 6 } else { i32::MAX };
    fill(spec, "backoffLimit", limit);
    let replacement = if absent(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    fill(spec, "podReplacementPolicy", replacement);
}

/// The template's labels stand in for missing labels.
fn labels_of_template(job: &mut Object) {
    let labels = job.get("spec").and_then(|s| s.pointer("/template/metadata/labels")).cloned();
    let Some(labels) = labels.filter(|l| !is_zero(l)) else { return };
    let metadata = map_mut(job, "metadata");
    if metadata.get("labels").is_none_or(is_zero) {
        metadata.insert("labels".to_owned(), labels);
    }
}

/// Unless the client selects by itself, a job selects its pods by its UID, and its template gets the labels for that.
fn generate_selector(job: &mut Value) {
    if job.pointer("/spec/manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let (name, uid) = (copepod_api::meta::name(job).to_owned(), copepod_api::meta::uid(job).to_owned());
    let Some(object) = job.as_object_mut() else { return };
    // Labels that the template lent to the job are one map upstream: what is added to one is added to the other.
    let lent = object.get("metadata").and_then(|m| m.get("labels")).cloned();
    let spec = map_mut(object, "spec");
    let labels = map_mut(map_mut(map_mut(spec, "template"), "metadata"), "labels");
    let lent = lent.is_some_and(|lent| lent.as_object() == Some(labels));
    for (key, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
    ] {
        labels.entry(key).or_insert_with(|| json!(value));
    }
    let selector = map_mut(map_mut(spec, "selector"), "matchLabels");
    selector.entry("batch.kubernetes.io/controller-uid").or_insert_with(|| json!(uid));
    if lent {
        map_mut(object, "metadata").remove("labels");
        labels_of_template(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_selects_by_its_uid() {
        let mut job = json!({"metadata": {"name": "j", "uid": "u-1"}, "spec": {"template": {}}});
        generate_selector(&mut job);
        assert_eq!(job["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"], "u-1");
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
    }

    #[test]
    fn completions_follow_parallelism() {
        let mut spec = json!({"parallelism": 3, "backoffLimitPerIndex": 1});
        counts(spec.as_object_mut().unwrap());
        assert_eq!(
            spec,
            json!({"parallelism": 3, "backoffLimitPerIndex": 1, "backoffLimit": 2_147_483_647,
                "podReplacementPolicy": "TerminatingOrFailed"})
        );
    }
}
