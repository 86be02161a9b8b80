//! Admission policies.

use std::collections::HashSet;

use copepod_api::names;

use super::rules;
use crate::kinds::at::At;
use crate::kinds::checks::labels;
use crate::kinds::defaults::{
    Lit::{Map, S},
    Rule::{self, Each, In, Nil},
};
use crate::kinds::kind::{Kind, keep_meta};

/// Defaults of what a policy or binding matches.
pub(crate) const MATCH: &[Rule] = &[
    Nil("matchPolicy", S("Equivalent")),
    Nil("namespaceSelector", Map),
    Nil("objectSelector", Map),
    Each(&["resourceRules", "excludeResourceRules"], &[Nil("scope", S("*"))]),
];

const SPEC: &[Rule] = &[In(&["spec"], &[Nil("failurePolicy", S("Fail")), In(&["matchConstraints"], MATCH)])];

/// Validating policies.
pub(crate) static VALIDATING: Kind = Kind {
    defaults: SPEC,
    unconditional_update: false,
    validate: |policy| {
        common(&policy.get("spec"));
        validations(policy);
    },
    prepare_status: |_, new, old| keep_meta(new, old),
    ..Kind::WITH_STATUS
};

/// Mutating policies.
pub(crate) static MUTATING: Kind = Kind {
    defaults: SPEC,
    generation: true,
    unconditional_update: false,
    validate: |policy| {
        common(&policy.get("spec"));
        mutations(&policy.get("spec"));
    },
    ..Kind::PLAIN
};

fn common(spec: &At<'_>) {
    spec.get("failurePolicy").one_of(&["Fail", "Ignore"]);
    let kind = spec.get("paramKind");
    if kind.present() {
        param_kind(&kind.get("apiVersion"), &kind.get("kind"));
    }
    let constraints = spec.get("matchConstraints");
    if constraints.present() {
        rules::matching(&constraints);
        if constraints.get("resourceRules").is_empty() {
            constraints.get("resourceRules").required("");
        }
    } else {
        constraints.required("");
    }
    rules::conditions(&spec.get("matchConditions"));
    let mut seen = HashSet::new();
    for at in spec.get("variables").items() {
        if at.get("name").need() && !seen.insert(at.get("name").str()) {
            at.get("name").duplicate();
        }
        if at.get("expression").str().trim().is_empty() {
            at.get("expression").required("expression is not specified");
        }
    }
}

fn validations(policy: &At<'_>) {
    let spec = policy.get("spec");
    let (list, audits) = (spec.get("validations"), spec.get("auditAnnotations"));
    if list.is_empty() && audits.is_empty() {
        for at in [&list, &audits] {
            at.required("validations or auditAnnotations must contain at least one item");
        }
    }
    for at in list.items() {
        if at.get("expression").str().trim().is_empty() {
            at.get("expression").required("expression is not specified");
        }
        at.get("reason").one_of(&["Forbidden", "Invalid", "RequestEntityTooLarge"]);
    }
    for at in audits.items() {
        let key = at.get("key");
        let full = format!("{}/{}", policy.at("metadata.name").str(), key.str());
        names::qualified_name(&full).into_iter().for_each(|error| key.invalid_as(full.as_str(), error));
        if at.get("valueExpression").str().trim().is_empty() {
            at.get("valueExpression").required("valueExpression is not specified");
        }
    }
}

fn mutations(spec: &At<'_>) {
    let (list, again) = (spec.get("mutations"), spec.get("reinvocationPolicy"));
    list.need_because("mutations must contain at least one item");
    for at in list.items() {
        let types = &["ApplyConfiguration", "JSONPatch"];
        if at.get("patchType").is_empty() {
            at.get("patchType").required("");
        } else {
            at.get("patchType").one_of(types);
        }
        for (kind, field) in [("ApplyConfiguration", "applyConfiguration"), ("JSONPatch", "jsonPatch")] {
            if at.is("patchType", kind) && !at.get(field).present() {
                at.get(field).required(&format!("must be specified when patchType is {kind}"));
            }
        }
    }
    again.need_one_of(&["IfNeeded", "Never"]);
}

/// A kind that parameters may be of.
fn param_kind(at: &At<'_>, kind: &At<'_>) {
    if at.need() {
        let (group, version) = at.str().split_once('/').unwrap_or_else(|| ("", at.str()));
        let wrong = names::dns1123_subdomain(group);
        if !group.is_empty() && !wrong.is_empty() {
            at.invalid_as(group, wrong.join(","));
        }
        let wrong = names::dns1035_label(version);
        if version.is_empty() {
            at.invalid("version must be specified");
        } else if !wrong.is_empty() {
            at.invalid_as(version, wrong.join(","));
        }
    }
    if kind.need() {
        let wrong = names::dns1035_label(&kind.str().to_lowercase());
        if !wrong.is_empty() {
            kind.invalid(format!("may have mixed case, but should otherwise match: {}", wrong.join(",")));
        }
    }
}

/// Names of things that policies refer to.
pub(crate) fn reference(at: &At<'_>) {
    if !at.present() {
        return;
    }
    let (name, selector) = (at.get("name"), at.get("selector"));
    if name.is_empty() && !selector.present() {
        at.required("one of name or selector must be specified");
    } else if !name.is_empty() && selector.present() {
        name.forbidden("name and selector are mutually exclusive");
        selector.forbidden("name and selector are mutually exclusive");
    }
    labels::selector(&selector);
    at.get("parameterNotFoundAction").need_one_of(&["Deny", "Allow"]);
}
