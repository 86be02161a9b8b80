//! Admission policies.

use std::collections::HashSet;

use copepod_api::names;

use super::{
    expressions::{self, Compiler, Use},
    rules,
};
use crate::kinds::at::{At, same};
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
    validate: |policy| validating(policy, None),
    validate_update: Some(|policy, old| validating(policy, Some(old))),
    prepare_status: |_, new, old| keep_meta(new, old),
    ..Kind::WITH_STATUS
};

/// Mutating policies.
pub(crate) static MUTATING: Kind = Kind {
    defaults: SPEC,
    generation: true,
    unconditional_update: false,
    validate: |policy| mutating(policy, None),
    validate_update: Some(|policy, old| mutating(policy, Some(old))),
    ..Kind::PLAIN
};

/// The most audit annotations of a policy.
const ANNOTATIONS: usize = 20;
/// The longest expression of an audit annotation.
const LONGEST: usize = 5 * 1024;

fn common(spec: &At<'_>, old: Option<&At<'_>>, compiler: &Compiler) {
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
    let before = old.map(|old| old.get("spec"));
    let before = before.filter(|before| same(kind.value(), before.get("paramKind").value()));
    let before = before.map(|before| before.get("matchConditions"));
    rules::conditions(&spec.get("matchConditions"), before.as_ref(), kind.present());
    for at in spec.get("variables").items() {
        let (name, expression) = (at.get("name"), at.get("expression"));
        if name.str().trim().is_empty() {
            name.required("name is not specified");
        } else if !expressions::identifier(name.str()) {
            name.invalid("must be a valid CEL identifier");
        }
        if expression.str().trim().is_empty() {
            expression.required("expression is not specified");
        } else {
            compiler.variable(&expression, name.str());
        }
    }
}

fn validating(policy: &At<'_>, old: Option<&At<'_>>) {
    let spec = policy.get("spec");
    let compiler = Compiler::of(&spec);
    common(&spec, old, &compiler);
    let (list, audits) = (spec.get("validations"), spec.get("auditAnnotations"));
    if list.is_empty() && audits.is_empty() {
        for at in [&list, &audits] {
            at.required("validations or auditAnnotations must contain at least one item");
        }
    }
    list.items().for_each(|at| validation(&at, &compiler));
    if audits.array().len() > ANNOTATIONS {
        audits.invalid(format!("must not have more than {ANNOTATIONS} auditAnnotations"));
    }
    let mut seen = HashSet::new();
    for at in audits.items() {
        annotation(&at, policy.at("metadata.name").str(), &compiler);
        if !seen.insert(at.get("key").str()) {
            at.get("key").duplicate();
        }
    }
}

fn validation(at: &At<'_>, compiler: &Compiler) {
    let (expression, message) = (at.get("expression"), at.get("message"));
    if expression.str().trim().is_empty() {
        expression.required("expression is not specified");
    } else {
        compiler.check(&expression, expression.str(), Use::Condition);
    }
    let composed = at.get("messageExpression");
    if !composed.is_empty() && composed.str().trim().is_empty() {
        composed.invalid("must be non-empty if specified");
    } else if !composed.is_empty() {
        compiler.check(&composed, composed.str(), Use::Message);
    }
    let trimmed = message.str().trim();
    if !message.is_empty() && trimmed.is_empty() {
        message.invalid("must be non-empty if specified");
    } else if trimmed.contains(['\n', '\r']) {
        message.invalid("must not contain line breaks");
    }
    at.get("reason").one_of(&["Forbidden", "Invalid", "RequestEntityTooLarge"]);
}

fn annotation(at: &At<'_>, policy: &str, compiler: &Compiler) {
    let (key, expression) = (at.get("key"), at.get("valueExpression"));
    let full = format!("{policy}/{}", key.str());
    names::qualified_name(&full).into_iter().for_each(|error| key.invalid_as(full.as_str(), error));
    match expression.str().trim() {
        "" => expression.required("valueExpression is not specified"),
        long if long.len() > LONGEST => {
            expression.required(&format!("must not exceed {LONGEST} bytes in length"));
        }
        trimmed => compiler.check(&expression, trimmed, Use::Annotation),
    }
}

fn mutating(policy: &At<'_>, old: Option<&At<'_>>) {
    let spec = policy.get("spec");
    let compiler = Compiler::of(&spec);
    common(&spec, old, &compiler);
    mutable(&spec.get("matchConstraints"));
    let (list, again) = (spec.get("mutations"), spec.get("reinvocationPolicy"));
    list.need_because("mutations must contain at least one item");
    for at in list.items() {
        if at.get("patchType").is_empty() {
            at.get("patchType").required("");
        } else {
            at.get("patchType").one_of(&["ApplyConfiguration", "JSONPatch"]);
        }
        let apply = ("ApplyConfiguration", "applyConfiguration", Use::Apply);
        let patch = ("JSONPatch", "jsonPatch", Use::Patch);
        // What is meant comes before what is too much.
        let kinds = if at.is("patchType", patch.0) { [patch, apply] } else { [apply, patch] };
        for (kind, field, purpose) in kinds {
            mutation(&at, kind, field, purpose, &compiler);
        }
    }
    again.need_one_of(&["IfNeeded", "Never"]);
}

/// One form of a mutation: given if and only if it is the type.
fn mutation(at: &At<'_>, kind: &str, field: &str, purpose: Use, compiler: &Compiler) {
    let given = at.get(field);
    let other = at.get("patchType").str();
    if at.is("patchType", kind) {
        let expression = given.get("expression");
        if !given.present() {
            given.required(&format!("must be specified when patchType is {kind}"));
        } else if expression.str().trim().is_empty() {
            expression.required("");
        } else {
            compiler.check(&expression, expression.str().trim(), purpose);
        }
    } else if given.present() && matches!(other, "ApplyConfiguration" | "JSONPatch") {
        given.invalid_as(format!("{{{field}}}"), format!("must not be specified when patchType is {other}"));
    }
}

/// Deletions cannot be mutated.
pub(super) fn mutable(matching: &At<'_>) {
    let at = matching.get("resourceRules").get("operations");
    for rule in matching.get("resourceRules").items() {
        for operation in rule.get("operations").items() {
            at.holding(&operation).one_of(&["*", "CONNECT", "CREATE", "UPDATE"]);
        }
    }
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
