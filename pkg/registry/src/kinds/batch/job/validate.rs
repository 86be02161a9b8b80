//! What is wrong with a job, new or changed.

use copepod_api::{FieldError, LabelSelector, names};
use serde_json::{Value, json};

use super::policies;
use crate::kinds::at::{At, same};
use crate::kinds::checks::{labels, text, workload};
use crate::kinds::pod::validate as pods;

/// A new job.
pub(crate) fn create(job: &At<'_>) {
    generated_selector(job);
    spec(&job.get("spec"), true);
    name_allows_completions(job);
}

/// The labels by which a job without a selector of its own finds its pods.
fn generated_selector(job: &At<'_>) {
    let spec = job.get("spec");
    let selector = spec.get("selector");
    if spec.get("manualSelector").bool() || !selector.present() {
        return;
    }
    let uid = job.at("metadata.uid");
    uid.need();
    let (name, uid) = (job.at("metadata.name").str(), uid.str());
    let metadata = spec.at("template.metadata");
    let wanted = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    for (key, value) in wanted {
        let label = metadata.get("labels").key(key);
        if !label.present() {
            label.required(&format!("must be '{value}'"));
        } else if label.str() != value {
            label.invalid_as(
                metadata.get("labels").value().cloned().unwrap_or_default(),
                format!("must be '{value}'"),
            );
        }
    }
    let expected = json!(std::collections::BTreeMap::from(wanted));
    if let (Ok(parsed), Some(expected)) = (LabelSelector::from_object(selector.value()), expected.as_object())
        && !parsed.matches(expected)
    {
        selector.invalid("`selector` not auto-generated");
    }
}

/// The host name of the last pod of an indexed job must be one.
fn name_allows_completions(job: &At<'_>) {
    let spec = job.get("spec");
    let Some(completions) = spec.get("completions").int().filter(|n| *n > 0) else { return };
    if spec.is("completionMode", "Indexed") {
        let name = job.at("metadata.name");
        let host = format!("{}-{}", name.str(), completions - 1);
        if !names::dns1123_label(&host).is_empty() {
            name.invalid(format!("will not able to create pod with invalid DNS label: {host}"));
        }
    }
}

const NUMBERS: &[&str] = &[
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
];

/// A job's spec; templates of cron jobs have no selector yet.
pub(crate) fn spec(at: &At<'_>, selects: bool) {
    NUMBERS.iter().for_each(|field| at.get(field).not_negative());
    if at.get("maxFailedIndexes").present() && !at.get("backoffLimitPerIndex").present() {
        at.get("backoffLimitPerIndex").required("when maxFailedIndexes is specified");
    }
    managed_by(&at.get("managedBy"));
    completion_mode(at);
    policies::failure(at);
    policies::success(at);
    let replacement = at.get("podReplacementPolicy");
    if at.get("podFailurePolicy").present() {
        replacement.one_of(&["Failed"]);
    } else {
        replacement.one_of(&["Failed", "TerminatingOrFailed"]);
    }
    pods::template(&at.get("template"));
    restart_policy(at);
    if !selects {
        return;
    }
    let selector = at.get("selector");
    if selector.present() {
        labels::selector(&selector);
    } else {
        selector.required("");
    }
    if let Ok(parsed) = LabelSelector::from_object(selector.value()) {
        workload::selects(&parsed, &at.get("template"));
    }
}

fn managed_by(at: &At<'_>) {
    if !at.present() {
        return;
    }
    text::prefixed_path(at);
    if at.str().len() > 63 {
        at.push(FieldError::too_long(at.path(), 63));
    }
}

fn completion_mode(at: &At<'_>) {
    let mode = at.get("completionMode");
    mode.one_of(&["NonIndexed", "Indexed"]);
    let (completions, failed) = (at.get("completions"), at.get("maxFailedIndexes"));
    if mode.str() == "Indexed" {
        if !completions.present() {
            completions.required("when completion mode is Indexed");
        }
        let parallelism = at.get("parallelism");
        if parallelism.int().is_some_and(|n| n > 100_000) {
            parallelism.invalid("must be less than or equal to 100000 when completion mode is Indexed");
        }
        if let (Some(failed_at), Some(all)) = (failed.int(), completions.int())
            && failed_at > all
        {
            failed.invalid("must be less than or equal to completions");
        }
    } else if mode.str() == "NonIndexed" || !mode.present() {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if at.get(field).present() {
                at.get(field).invalid("requires indexed completion mode");
            }
        }
    }
}

fn restart_policy(at: &At<'_>) {
    let policy = at.at("template.spec.restartPolicy");
    match policy.str() {
        "Always" | "" => policy.required("valid values: \"OnFailure\", \"Never\""),
        "OnFailure" => {
            if at.get("podFailurePolicy").present() {
                policy.invalid("only \"Never\" is supported when podFailurePolicy is specified");
            }
        }
        "Never" => {}
        _ => policy.not_supported(&["OnFailure", "Never"]),
    }
}

/// A changed job.
pub(crate) fn update(new: &At<'_>, old: &At<'_>) {
    let (at, was) = (new.get("spec"), old.get("spec"));
    spec(&at, true);
    let completions = at.get("completions");
    if !at.is("completionMode", "Indexed") {
        completions.immutable(&was.get("completions"));
    } else if completions.value() != was.get("completions").value()
        && completions.present()
        && completions.int() != at.get("parallelism").int()
    {
        completions.invalid("can only be modified in tandem with spec.parallelism");
    }
    at.get("selector").immutable(&was.get("selector"));
    template_update(&at, &was, old);
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        at.get(field).immutable(&was.get(field));
    }
    name_allows_completions(new);
}

/// A suspended job without pods may change where its pods run and what they ask for.
fn template_update(at: &At<'_>, was: &At<'_>, old: &At<'_>) {
    let suspended = was.get("suspend").bool();
    let idle = !old.at("status.startTime").present()
        || old.at("status.conditions").items().any(|c| c.is("type", "Suspended") && c.is("status", "True"));
    let free = suspended && idle && old.at("status.active").int().unwrap_or(0) == 0;
    let (Some(new), Some(mut before)) = (at.get("template").value(), was.get("template").value().cloned())
    else {
        return;
    };
    if free {
        allow_directives(new, &mut before);
    }
    if !same(Some(new), Some(&before)) {
        at.get("template").invalid("field is immutable");
    }
}

/// Takes over from `new` what may change.
fn allow_directives(new: &Value, old: &mut Value) {
    let take = |old: &mut Value, holder: &str, field: &str| {
        let value = new.get(holder).and_then(|h| h.get(field)).cloned();
        if let Some(into) = old.get_mut(holder) {
            pods::restore(into, field, value);
        }
    };
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        take(old, "spec", field);
    }
    for field in ["labels", "annotations"] {
        take(old, "metadata", field);
    }
    let node = new.pointer("/spec/affinity/nodeAffinity").cloned();
    let mut affinity = old.pointer("/spec/affinity").cloned().unwrap_or_else(|| json!({}));
    pods::restore(&mut affinity, "nodeAffinity", node);
    let empty = affinity.as_object().is_none_or(serde_json::Map::is_empty);
    if let Some(into) = old.get_mut("spec") {
        pods::restore(into, "affinity", Some(affinity).filter(|_| !empty));
    }
    for list in ["containers", "initContainers"] {
        let wanted =
            new.pointer(&format!("/spec/{list}")).and_then(Value::as_array).cloned().unwrap_or_default();
        let had = old.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        for (into, from) in had.into_iter().flatten().zip(&wanted) {
            if into.get("name") == from.get("name") {
                pods::restore(into, "resources", from.get("resources").cloned());
            }
        }
    }
}

/// A changed status.
pub(crate) fn status(new: &At<'_>, old: &At<'_>) {
    let (status, was) = (new.get("status"), old.get("status"));
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        status.get(field).not_negative();
    }
    let holds = |status: &At<'_>, kind: &str| {
        status.get("conditions").items().any(|c| c.is("type", kind) && c.is("status", "True"))
    };
    let conditions = status.get("conditions");
    if holds(&status, "Complete") && holds(&status, "Failed") {
        conditions.invalid_hidden("cannot set Complete=True and Failed=true conditions");
    }
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if holds(&was, kind) && !holds(&status, kind) {
            conditions.invalid_hidden(&format!("cannot disable the terminal {kind}=True condition"));
        }
    }
    let (ready, active) = (status.get("ready").int().unwrap_or(0), status.get("active").int().unwrap_or(0));
    if ready > active {
        status.get("ready").invalid("cannot set more ready pods than active");
    }
    if holds(&was, "SuccessCriteriaMet") && !holds(&status, "SuccessCriteriaMet") {
        conditions.invalid_hidden("cannot disable the SuccessCriteriaMet=True condition");
    }
}
