//! Resource quotas.

use std::collections::BTreeSet;

use crate::kinds::at::At;
use crate::kinds::checks::amounts;
use crate::kinds::defaults::Rule::{Amounts, In};
use crate::kinds::kind::Kind;

/// Resource quotas.
pub(crate) static KIND: Kind = Kind {
    reset_status: true,
    defaults: &[In(&["spec", "status"], &[Amounts(&["hard", "used"])])],
    validate,
    validate_update: Some(|new, old| {
        validate(new);
        let (now, was) = (new.at("spec.scopes"), old.at("spec.scopes"));
        let set = |at: &At<'_>| at.strings().into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
        if set(&now) != set(&was) {
            now.invalid("field is immutable");
        }
    }),
    validate_status: |new, _| {
        for list in ["hard", "used"] {
            amounts_of(&new.get("status").get(list));
        }
    },
    ..Kind::PLAIN
};

const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];

fn amounts_of(list: &At<'_>) {
    for (name, place) in list.entries() {
        amounts::quota_name(&place, name);
        amounts::value(&place, name);
    }
}

fn validate(quota: &At<'_>) {
    let spec = quota.get("spec");
    amounts_of(&spec.get("hard"));
    let scopes = spec.get("scopes");
    for scope in scopes.strings() {
        if !SCOPES.contains(&scope) {
            scopes.invalid("unsupported scope");
        }
        wrong_resources(&spec, scope)
            .iter()
            .for_each(|()| scopes.invalid("unsupported scope applied to resource"));
    }
    let given = scopes.strings();
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| given.contains(scope)) {
            scopes.invalid("conflicting scopes");
        }
    }
    let expressions = spec.at("scopeSelector.matchExpressions");
    for term in expressions.items() {
        selector_term(&spec, &term);
    }
}

/// One item for each counted resource that the scope says nothing about.
fn wrong_resources(spec: &At<'_>, scope: &str) -> Vec<()> {
    let counts_pods = |name: &str| {
        name == "pods"
            || matches!(name, "cpu" | "memory")
            || name.ends_with(".cpu")
            || name.ends_with(".memory")
    };
    let fits = |name: &str| match scope {
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => name == "persistentvolumeclaims" || name == "requests.storage",
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => counts_pods(name) || name.ends_with("ephemeral-storage"),
        _ => true,
    };
    spec.get("hard").entries().filter(|(name, _)| !name.contains('/') && !fits(name)).map(|_| ()).collect()
}

fn selector_term(spec: &At<'_>, term: &At<'_>) {
    let list = spec.at("scopeSelector.matchExpressions");
    let (scope, operator, values) =
        (term.get("scopeName").str(), term.get("operator").str(), term.get("values"));
    let at = |field: &str| list.get(field);
    if !SCOPES.contains(&scope) {
        at("scopeName").invalid_as(scope, "unsupported scope");
    }
    if !wrong_resources(spec, scope).is_empty() {
        let shown = spec.get("scopeSelector").value().cloned().unwrap_or_default();
        list.invalid_as(shown, "unsupported scope applied to resource");
    }
    let exists_only = matches!(
        scope,
        "BestEffort" | "NotBestEffort" | "Terminating" | "NotTerminating" | "CrossNamespacePodAffinity"
    );
    if exists_only && operator != "Exists" {
        at("operator").invalid_as(operator, "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity");
    }
    match operator {
        "In" | "NotIn" => {
            if values.is_empty() {
                at("values").required(
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
                );
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let shown = values.value().cloned().unwrap_or_default();
                at("values").invalid_as(
                    shown,
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
                );
            }
        }
        _ => at("operator").invalid_as(operator, "not a valid selector operator"),
    }
}
