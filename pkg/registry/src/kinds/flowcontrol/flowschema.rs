//! Flow schemas.

use copepod_api::names;

use crate::kinds::at::At;
use crate::kinds::defaults::{
    Lit::I,
    Rule::{In, Zero},
};
use crate::kinds::kind::{Kind, keep_meta};

/// Flow schemas.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(&["spec"], &[Zero("matchingPrecedence", I(1000))])],
    validate: |schema| validate(schema),
    prepare_status: |_, new, old| keep_meta(new, old),
    ..Kind::WITH_STATUS
};

const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

fn validate(schema: &At<'_>) {
    let spec = schema.get("spec");
    let precedence = spec.get("matchingPrecedence");
    match precedence.int().unwrap_or(0) {
        n if n <= 0 => precedence.invalid("must be a positive value"),
        n if n > 10_000 => precedence.invalid("must not be greater than 10000"),
        1 if schema.at("metadata.name").str() != "exempt" => {
            precedence.invalid("only the schema named 'exempt' may have matchingPrecedence 1");
        }
        _ => {}
    }
    let method = spec.get("distinguisherMethod");
    if method.present() && !matches!(method.get("type").str(), "ByNamespace" | "ByUser") {
        method.get("type").holding(&method).not_supported(&["ByNamespace", "ByUser"]);
    }
    let level = spec.at("priorityLevelConfiguration.name");
    if level.need_because("must reference a priority level") {
        level.text(names::dns1123_subdomain);
    }
    spec.get("rules").items().for_each(|at| rule(&at));
}

fn rule(at: &At<'_>) {
    let subjects = at.get("subjects");
    subjects.need_because("subjects must contain at least one value");
    subjects.items().for_each(|at| subject(&at));
    let (resources, others) = (at.get("resourceRules"), at.get("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        at.required("at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    for rule in resources.items() {
        verbs(&rule.get("verbs"));
        list(&rule.get("apiGroups"), "resource rules must supply at least one api group", "api groups");
        list(&rule.get("resources"), "resource rules must supply at least one resource", "resources");
        namespaces(&rule);
    }
    for rule in others.items() {
        verbs(&rule.get("verbs"));
        urls(&rule.get("nonResourceURLs"));
    }
}

fn list(at: &At<'_>, missing: &str, what: &str) {
    at.need_because(missing);
    if at.array().len() > 1 && at.strings().contains(&"*") {
        at.invalid(format!("if '*' is present, must not specify other {what}"));
    }
}

fn verbs(at: &At<'_>) {
    at.need_because("verbs must contain at least one value");
    let given = at.strings();
    if given.contains(&"*") {
        if given.len() > 1 {
            at.invalid("if '*' is present, must not specify other verbs");
        }
    } else if given.iter().any(|verb| !VERBS.contains(verb)) {
        at.not_supported(VERBS);
    }
}

fn namespaces(rule: &At<'_>) {
    let at = rule.get("namespaces");
    if at.is_empty() && !rule.get("clusterScope").bool() {
        at.required("resource rules that are not cluster scoped must supply at least one namespace");
    } else if at.strings().contains(&"*") {
        if at.array().len() > 1 {
            at.invalid("if '*' is present, must not specify other namespaces");
        }
    } else {
        for name in at.items() {
            for error in names::dns1123_label(name.str()) {
                name.invalid(format!("each member of this list must be '*' or a DNS-1123 label; {error}"));
            }
        }
    }
}

fn urls(at: &At<'_>) {
    at.need_because("nonResourceURLs must contain at least one value");
    if at.strings().contains(&"*") {
        if at.array().len() > 1 {
            at.invalid("if '*' is present, must not specify other non-resource URLs");
        }
        return;
    }
    for url in at.items() {
        match url.str() {
            "" => url.invalid("must not be empty"),
            "/" => {}
            text if !text.starts_with('/') => url.invalid("must start with slash"),
            text if text.contains(' ') => url.invalid("must not contain white-space"),
            text if text.contains("//") => url.invalid("must not contain double slash"),
            text if text.trim_end_matches('*').contains('*') => {
                url.invalid("wildcard can only do suffix matching")
            }
            _ => {}
        }
    }
}

fn subject(at: &At<'_>) {
    let kinds = [("User", "user"), ("Group", "group"), ("ServiceAccount", "serviceAccount")];
    let kind = at.get("kind");
    let Some((name, own)) = kinds.iter().find(|(name, _)| *name == kind.str()) else {
        return kind.not_supported(&["Group", "ServiceAccount", "User"]);
    };
    let place = at.get(own);
    if place.present() {
        let who = place.get("name");
        if who.need() && *own == "serviceAccount" && who.str() != "*" {
            who.text(names::dns1123_subdomain);
        }
        if *own == "serviceAccount" {
            place.get("namespace").need_because("must specify namespace for service account");
        }
    } else {
        place.required(&format!("{own} is required when subject kind is '{name}'"));
    }
    for (other, field) in kinds.iter().filter(|(_, field)| field != own && at.get(field).present()) {
        at.get(field).forbidden(format!("{field} is forbidden when subject kind is not '{other}'"));
    }
}
