//! Stateful sets.

use copepod_api::{LabelSelector, names};
use serde_json::{Value, json};

use crate::kinds::at::At;
use crate::kinds::checks::warn;
use crate::kinds::checks::{labels, workload};
use crate::kinds::core::persistentvolumeclaim::{self, CLAIM};
use crate::kinds::core::podtemplate::template_warnings;
use crate::kinds::defaults::{
    Lit::{I, Map, S},
    Object,
    Rule::{Each, In, Nil, Run, Zero},
    fill, map_mut, text,
};
use crate::kinds::kind::Kind;
use crate::kinds::pod::defaults::TEMPLATE;
use crate::kinds::pod::validate as pods;

/// Stateful sets.
pub(crate) static KIND: Kind = Kind {
    defaults: &[
        In(
            &["spec"],
            &[
                Zero("podManagementPolicy", S("OrderedReady")),
                Run(strategy),
                Nil("persistentVolumeClaimRetentionPolicy", Map),
                In(
                    &["persistentVolumeClaimRetentionPolicy"],
                    &[Zero("whenDeleted", S("Retain")), Zero("whenScaled", S("Retain"))],
                ),
                Nil("replicas", I(1)),
                Nil("revisionHistoryLimit", I(10)),
                Each(
                    &["volumeClaimTemplates"],
                    &[Zero("apiVersion", S("v1")), Zero("kind", S("PersistentVolumeClaim"))],
                ),
                Each(&["volumeClaimTemplates"], CLAIM),
            ],
        ),
        In(&["spec"], TEMPLATE),
    ],
    validate: |set| validate(&set.get("spec")),
    validate_update: Some(|new, old| {
        validate(&new.get("spec"));
        for field in ["selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy"] {
            new.get("spec").get(field).immutable(&old.get("spec").get(field));
        }
    }),
    validate_status: |new, old| {
        workload::counts(
            &new.get("status"),
            &["replicas", "observedGeneration", "collisionCount"],
            &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
        );
        workload::collisions(&new.get("status"), &old.get("status"));
    },
    name: names::dns1123_label,
    warnings: |new, old| {
        let mut warnings = template_warnings(new, old, "/spec/template", "spec.template");
        warnings.extend(warn::about(new, copepod_api::FieldPath::root(), |set, warnings| {
            let claims = set.at("spec.volumeClaimTemplates");
            claims.items().for_each(|claim| warn::claim(&claim.get("spec"), warnings));
            if set.at("spec.revisionHistoryLimit").int().is_some_and(|n| n < 0) {
                warnings.push("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".to_owned());
            }
        }));
        warnings
    },
    ..Kind::WITH_STATUS
};

fn strategy(spec: &mut Object) {
    let strategy = map_mut(spec, "updateStrategy");
    if text(strategy, "type").is_empty() {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
        fill(strategy, "rollingUpdate", json!({}));
    }
    if text(strategy, "type") == "RollingUpdate"
        && let Some(rolling) = strategy.get_mut("rollingUpdate").and_then(Value::as_object_mut)
    {
        fill(rolling, "partition", 0);
        fill(rolling, "maxUnavailable", 1);
    }
}

fn validate(spec: &At<'_>) {
    let policy = spec.get("podManagementPolicy");
    if policy.need() && !matches!(policy.str(), "OrderedReady" | "Parallel") {
        policy.invalid("must be 'OrderedReady' or 'Parallel'");
    }
    check_strategy(&spec.get("updateStrategy"));
    for field in ["whenDeleted", "whenScaled"] {
        spec.get("persistentVolumeClaimRetentionPolicy").get(field).one_of(&["Retain", "Delete"]);
    }
    for template in spec.get("volumeClaimTemplates").items() {
        persistentvolumeclaim::spec(&template.get("spec"));
    }
    spec.get("replicas").not_negative();
    spec.get("minReadySeconds").not_negative();
    let start = spec.at("ordinals.start");
    start.named(spec.get("ordinals.start").path().clone()).not_negative();
    if !spec.get("serviceName").is_empty() {
        spec.get("serviceName").text(names::dns1123_label);
    }
    let selector = spec.get("selector");
    if selector.present() {
        labels::selector(&selector);
        if labels::selects_all(&selector) {
            selector.invalid("empty selector is invalid for statefulset");
        }
    } else {
        selector.required("");
    }
    match LabelSelector::from_object(selector.value()) {
        Err(_) => selector.invalid(""),
        Ok(parsed) => template(spec, &parsed),
    }
    workload::always_restarted(&spec.get("template"), "StatefulSet");
}

/// The template as its pods will be: with a volume for each claim, and host names by the controller.
fn template(spec: &At<'_>, selector: &LabelSelector) {
    let at = spec.get("template");
    workload::selects(selector, &at);
    let mut whole = at.value().cloned().unwrap_or_default();
    if let Some(pod) = whole.get_mut("spec").and_then(Value::as_object_mut) {
        pod.remove("subdomain");
        pod.remove("hostname");
        let claims: Vec<&str> =
            spec.get("volumeClaimTemplates").items().map(|c| c.at("metadata.name").str()).collect();
        let own = pod.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
        let volume = |name: &&str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        let mut volumes: Vec<Value> = claims.iter().map(volume).collect();
        let hidden = |v: &Value| v.get("name").and_then(Value::as_str).is_some_and(|n| claims.contains(&n));
        volumes.extend(own.into_iter().filter(|v| !hidden(v)));
        if !volumes.is_empty() {
            pod.insert("volumes".to_owned(), volumes.into());
        }
    }
    at.borrowing(&whole, pods::template);
}

fn check_strategy(at: &At<'_>) {
    let rolling = at.get("rollingUpdate");
    match at.get("type").str() {
        "" => at.required(""),
        "OnDelete" => {
            if rolling.present() {
                rolling.invalid("only allowed for updateStrategy 'RollingUpdate'");
            }
        }
        "RollingUpdate" => {
            rolling.get("partition").not_negative();
            let unavailable = rolling.get("maxUnavailable");
            if unavailable.present() {
                workload::int_or_percent(&unavailable);
                if workload::number(&unavailable) == 0 {
                    unavailable.invalid("cannot be 0");
                }
                workload::at_most_all(&unavailable);
            }
        }
        _ => at.invalid("must be 'RollingUpdate' or 'OnDelete'"),
    }
}
