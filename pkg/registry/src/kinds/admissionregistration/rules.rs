//! What admission rules match, and how webhooks are called: shared by webhooks, policies and bindings.

use std::collections::HashSet;

use copepod_api::names;

use super::expressions::{Compiler, Use};
use crate::kinds::at::{At, same};
use crate::kinds::checks::{labels, text};

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/// Refuses other entries beside `*`.
fn alone(list: &At<'_>, what: &str) {
    let given = list.strings();
    if given.len() > 1 && given.contains(&"*") {
        list.invalid(format!("if '*' is present, must not specify other {what}"));
    }
}

/// One rule with operations.
pub(crate) fn rule(at: &At<'_>) {
    let operations = at.get("operations");
    operations.need();
    alone(&operations, "operations");
    operations.items().for_each(|operation| operation.one_of(OPERATIONS));
    let (groups, versions) = (at.get("apiGroups"), at.get("apiVersions"));
    groups.need();
    alone(&groups, "API groups");
    versions.need();
    alone(&versions, "API versions");
    for version in versions.items().filter(At::is_empty) {
        version.required("");
    }
    resources(&at.get("resources"));
    at.get("scope").one_of(&["*", "Cluster", "Namespaced"]);
}

fn resources(list: &At<'_>) {
    list.need();
    let (mut whole, mut subs) = (HashSet::new(), HashSet::new());
    for at in list.items() {
        let Some((resource, sub)) = at.str().split_once('/') else {
            if at.is_empty() {
                at.required("");
            }
            continue;
        };
        if whole.contains(resource) {
            at.invalid(format!("if '{resource}/*' is present, must not specify {}", at.str()));
        }
        if subs.contains(sub) {
            at.invalid(format!("if '*/{sub}' is present, must not specify {}", at.str()));
        }
        if sub == "*" {
            whole.insert(resource);
        }
        if resource == "*" {
            subs.insert(sub);
        }
    }
    let given = list.strings();
    if given.len() > 1 && given.contains(&"*/*") {
        list.invalid("if '*/*' is present, must not specify other resources");
    }
    let plain = given.iter().rfind(|r| !r.contains('/')).is_some_and(|r| *r != "*");
    if given.contains(&"*") && plain {
        list.invalid("if '*' is present, must not specify other resources without subresources");
    }
}

/// `matchConstraints` or `matchResources`.
pub(crate) fn matching(at: &At<'_>) {
    at.get("matchPolicy").one_of(&["Equivalent", "Exact"]);
    labels::selector(&at.get("namespaceSelector"));
    labels::selector(&at.get("objectSelector"));
    for list in ["resourceRules", "excludeResourceRules"] {
        at.get(list).items().for_each(|at| rule(&at));
    }
}

/// `matchConditions`: named expressions, which may name `params` when there are `params`. Those that are as they were
/// before are not judged again.
pub(crate) fn conditions(list: &At<'_>, before: Option<&At<'_>>, params: bool) {
    if before.is_some_and(|before| same(list.value(), before.value())) {
        return;
    }
    let compiler = Compiler::new(params);
    if list.array().len() > 64 {
        list.push(copepod_api::FieldError::too_many(list.path(), list.array().len(), 64));
    }
    let mut seen = HashSet::new();
    for at in list.items() {
        let expression = at.get("expression");
        match expression.str().trim() {
            "" => expression.required(""),
            trimmed => compiler.check(&expression, trimmed, Use::Condition),
        }
        let name = at.get("name");
        if name.need() {
            labels::key(&name);
            if !seen.insert(name.str()) {
                name.duplicate();
            }
        }
    }
}

/// How a webhook is called: by URL or by service.
pub(crate) fn client(at: &At<'_>) {
    let (url, service) = (at.get("url"), at.get("service"));
    if url.present() == service.present() {
        return at.required("exactly one of url or service is required");
    }
    if url.present() { check_url(&url) } else { check_service(&service) }
}

fn check_url(at: &At<'_>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let Some((scheme, rest)) = at.str().split_once("://").filter(|(scheme, _)| !scheme.is_empty()) else {
        return at.required(&format!(
            "url must be a valid URL: parse {:?}: missing protocol scheme{FORM}",
            at.str()
        ));
    };
    if scheme != "https" {
        at.invalid_as(scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    let (rest, fragment) = rest.split_once('#').map_or((rest, None), |(rest, f)| (rest, Some(f)));
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, q)| (rest, Some(q)));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(u, h)| (Some(u), h));
    if host.is_empty() {
        at.invalid_as(host, format!("host must be specified{FORM}"));
    }
    for (part, what) in [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if let Some(part) = part.filter(|p| !p.is_empty()) {
            at.invalid_as(part, what);
        }
    }
}

fn check_service(at: &At<'_>) {
    at.get("name").need();
    at.get("namespace").need();
    let port = at.get("port");
    if port.int().is_some_and(|n| !(1..=65535).contains(&n)) {
        port.invalid("port is not valid: must be between 1 and 65535, inclusive");
    }
    let path = at.get("path");
    let inner = path.str().trim_start_matches('/').trim_end_matches('/');
    if matches!(path.str(), "" | "/") {
        return;
    }
    if !path.str().starts_with('/') {
        path.invalid("must start with a '/'");
    }
    for (i, part) in inner.split('/').enumerate() {
        if part.is_empty() {
            path.invalid(format!("segment[{i}] may not be empty"));
        } else {
            names::dns1123_subdomain(part)
                .into_iter()
                .for_each(|error| path.invalid(format!("segment[{i}]: {error}")));
        }
    }
}

/// Versions of AdmissionReview a webhook speaks.
pub(crate) fn review_versions(list: &At<'_>) {
    if !list.need_because("must specify one of v1, v1beta1") {
        return;
    }
    let mut seen = HashSet::new();
    for at in list.items() {
        if seen.insert(at.str()) {
            at.text(names::dns1035_label);
        } else {
            at.invalid("duplicate version");
        }
    }
    if !list.strings().iter().any(|v| matches!(*v, "v1" | "v1beta1")) {
        list.invalid("must include at least one of v1, v1beta1");
    }
}

/// The name of a webhook.
pub(crate) fn hook_name(at: &At<'_>) {
    text::qualified_domain(at, 3);
}
