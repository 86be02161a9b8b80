//! The `authorization.k8s.io` group: questions about access, which are answered and not stored.

use serde_json::Value;

use super::at::At;
use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "localsubjectaccessreviews" => &LOCAL,
        "selfsubjectaccessreviews" => &OWN,
        "selfsubjectrulesreviews" => &super::authentication::REVIEW,
        "subjectaccessreviews" => &ANY,
        _ => return None,
    })
}

static ANY: Kind = Kind {
    name: |_| Vec::new(),
    validate: |review| {
        subject(&review.get("spec"));
        attributes(&review.get("spec"));
        bare(review, false);
    },
    ..Kind::PLAIN
};

static OWN: Kind = Kind {
    name: |_| Vec::new(),
    validate: |review| {
        attributes(&review.get("spec"));
        bare(review, false);
    },
    ..Kind::PLAIN
};

static LOCAL: Kind = Kind {
    name: |_| Vec::new(),
    validate: |review| {
        let spec = review.get("spec");
        subject(&spec);
        attributes(&spec);
        bare(review, true);
        let namespace = spec.at("resourceAttributes.namespace");
        if spec.get("resourceAttributes").present()
            && namespace.str() != review.at("metadata.namespace").str()
        {
            namespace.invalid("must match metadata.namespace");
        }
        if spec.get("nonResourceAttributes").present() {
            spec.get("nonResourceAttributes").invalid("disallowed on this kind of request");
        }
    },
    ..Kind::PLAIN
};

fn subject(spec: &At<'_>) {
    if spec.get("user").is_empty() && spec.get("groups").is_empty() {
        spec.get("user").invalid("at least one of user or group must be specified");
    }
}

fn attributes(spec: &At<'_>) {
    let (resource, other) = (spec.get("resourceAttributes"), spec.get("nonResourceAttributes"));
    if resource.present() == other.present() {
        let shown = other.value().cloned().unwrap_or(Value::Null);
        spec.invalid_as(
            shown,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        );
    }
    for selector in ["fieldSelector", "labelSelector"] {
        let at = resource.get(selector);
        let (raw, terms) = (at.get("rawSelector"), at.get("requirements"));
        if !raw.is_empty() && !terms.is_empty() {
            raw.invalid("may not specified at the same time as requirements");
        }
        if at.present() && raw.is_empty() && terms.is_empty() {
            let why = format!("when {} is specified, requirements or rawSelector is required", at.path());
            terms.required(&why);
        }
    }
}

/// A question has no metadata of its own.
fn bare(review: &At<'_>, local: bool) {
    let metadata = review.get("metadata");
    let set_by_server = |key: &str| matches!(key, "managedFields" | "uid" | "creationTimestamp");
    let expected = |key: &str| set_by_server(key) || (local && key == "namespace");
    if metadata.entries().any(|(key, at)| !expected(key) && !at.is_empty()) {
        let only = if local { "must be empty except for namespace" } else { "must be empty" };
        metadata.invalid(only);
    }
}
