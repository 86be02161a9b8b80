//! What is wrong with a custom resource definition.

use std::collections::HashSet;

use copepod_api::{FieldError, FieldPath, names};
use copepod_cel::rules::valid_path;
use copepod_schema::{SchemaSet, node::Kind};
use serde_json::Value;

use super::schema;
use crate::kinds::admissionregistration::rules;
use crate::kinds::at::At;

/// Most fields of a version that selectors may name.
const MAX_SELECTABLE: usize = 8;

/// A new definition.
pub(super) fn create(definition: &At<'_>) {
    let spec = definition.get("spec");
    let name = definition.at("metadata.name");
    let wanted = format!("{}.{}", spec.at("names.plural").str(), spec.get("group").str());
    if name.str() != wanted {
        name.invalid("must be spec.names.plural+\".\"+spec.group");
    }
    if spec.get("preserveUnknownFields").bool() {
        spec.get("preserveUnknownFields").invalid("cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead");
    }
    whole(definition);
}

/// A changed definition: once established, its names stay.
pub(super) fn update(new: &At<'_>, old: &At<'_>) {
    whole(new);
    let (spec, was) = (new.get("spec"), old.get("spec"));
    let established =
        old.at("status.conditions").items().any(|c| c.is("type", "Established") && c.is("status", "True"));
    if established {
        spec.get("scope").immutable(&was.get("scope"));
        spec.at("names.kind").immutable(&was.at("names.kind"));
    }
    spec.get("group").immutable(&was.get("group"));
    spec.at("names.plural").immutable(&was.at("names.plural"));
}

fn whole(definition: &At<'_>) {
    let spec = definition.get("spec");
    let group = spec.get("group");
    if group.need() {
        let errors = names::dns1123_subdomain(group.str());
        if !errors.is_empty() {
            group.invalid(errors.join(","));
        } else if !group.str().contains('.') {
            group.invalid("should be a domain with at least one dot");
        }
    }
    spec.get("scope").need_one_of(&["Cluster", "Namespaced"]);
    versions(&spec);
    check_names(&spec.get("names"));
    conversion(&spec.get("conversion"));
    stored(definition);
}

/// Whether all versions say the same in `field`: upstream then moves it to the top.
fn shared(spec: &At<'_>, field: &str) -> bool {
    let list = spec.get("versions").array();
    let first = list.first().and_then(|v| v.get(field));
    list.iter().all(|version| version.get(field) == first)
}

/// Where upstream looks at a version's field: at the top for the first version when all agree, else in place.
fn top<'a>(spec: &At<'a>, at: &At<'a>, field: &str, name: &str) -> Option<At<'a>> {
    let place = at.get(field);
    if !shared(spec, field) {
        return Some(place);
    }
    at.path().as_str().ends_with("[0]").then(|| spec.get(name).holding(&place))
}

fn versions(spec: &At<'_>) {
    let list = spec.get("versions");
    let all: Vec<At<'_>> = list.items().collect();
    for at in all.iter().filter(|at| !at.at("schema.openAPIV3Schema").present()) {
        at.at("schema.openAPIV3Schema").required("");
    }
    let mut seen = HashSet::new();
    for at in &all {
        let name = at.get("name");
        let errors = names::dns1035_label(name.str());
        if !errors.is_empty() {
            name.invalid_as(name.str(), errors.join(","));
        }
        seen.insert(name.str());
        deprecation(at);
        let set = top(spec, at, "schema", "validation")
            .and_then(|place| schema::root(&place.get("openAPIV3Schema")));
        if let (Some(set), Some(place)) = (set, top(spec, at, "selectableFields", "selectableFields")) {
            selectable(&place, &set);
        }
        if let Some(place) = top(spec, at, "subresources", "subresources") {
            scale(&place.get("scale"));
        }
        if let Some(place) = top(spec, at, "additionalPrinterColumns", "additionalPrinterColumns") {
            place.items().for_each(|column| check_column(&column));
        }
    }
    let storage = all.iter().filter(|at| at.get("storage").bool()).count();
    let wrong = |why: &str| {
        let shown = if list.present() { internal(spec, &all) } else { "null".to_owned() };
        list.push(FieldError::invalid(list.path(), Value::Null, why).showing(shown));
    };
    if seen.len() < all.len() {
        wrong("must contain unique version names");
    }
    if storage != 1 {
        wrong("must have exactly one version marked as storage version");
    }
    if let Some(first) = all.first().map(|at| at.get("name")) {
        let errors = names::dns1035_label(first.str());
        if !errors.is_empty() {
            spec.get("version").invalid_as(first.str(), errors.join(","));
        }
    }
}

/// The versions as upstream's internal form shows them: what all of them share is at the top, not here.
fn internal(spec: &At<'_>, versions: &[At<'_>]) -> String {
    let own = |at: &At<'_>, field: &str| match at.get(field).value() {
        Some(value) if !shared(spec, field) => value.to_string(),
        _ => "null".to_owned(),
    };
    let shown: Vec<String> = versions
        .iter()
        .map(|at| {
            format!(
                r#"{{"Name":{},"Served":{},"Storage":{},"Deprecated":{},"DeprecationWarning":{},"Schema":{},"Subresources":{},"AdditionalPrinterColumns":{},"SelectableFields":{}}}"#,
                Value::from(at.get("name").str()),
                at.get("served").bool(),
                at.get("storage").bool(),
                at.get("deprecated").bool(),
                at.get("deprecationWarning").value().unwrap_or(&Value::Null),
                own(at, "schema"),
                own(at, "subresources"),
                own(at, "additionalPrinterColumns"),
                own(at, "selectableFields"),
            )
        })
        .collect();
    format!("[{}]", shown.join(","))
}

/// Fields that selectors may name.
fn selectable(at: &At<'_>, set: &SchemaSet) {
    let Some(root) = set.root() else { return };
    let mut seen = HashSet::new();
    for field in at.items() {
        let path = field.get("jsonPath");
        if !path.need() {
            continue;
        }
        match valid_path(path.str(), root) {
            Err(why) => path.invalid(format!("is an invalid path: {why}")),
            Ok(place) => {
                if place.as_str().split(['.', '[']).next() == Some("metadata") {
                    path.invalid("must not point to fields in metadata");
                }
                let scalar = root.at_path(place.as_str()).is_some_and(|schema| {
                    matches!(schema.kind(), Kind::String | Kind::Boolean | Kind::Integer)
                });
                if !scalar {
                    path.invalid("must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.");
                }
                if !seen.insert(place.as_str().to_owned()) {
                    path.duplicate();
                }
            }
        }
    }
    if seen.len() > MAX_SELECTABLE {
        at.push(FieldError::too_many(at.path(), seen.len(), MAX_SELECTABLE));
    }
}

fn deprecation(at: &At<'_>) {
    let warning = at.get("deprecationWarning");
    if !warning.present() {
        return;
    }
    if !at.get("deprecated").bool() {
        return warning.invalid("can only be set for deprecated versions");
    }
    if warning.str().len() > 256 {
        warning.invalid("must be <= 256 characters long");
    }
    if warning.str().is_empty() {
        warning.invalid("must not be an empty string");
    }
}

/// A path of plain field names, such as `.spec.replicas`.
fn simple_path(at: &At<'_>) -> bool {
    if !at.need() {
        return false;
    }
    let simple = at.str().starts_with('.') && !at.str().contains(char::is_whitespace);
    if !simple {
        at.invalid("must be a simple json path starting with .");
    }
    simple
}

fn scale(at: &At<'_>) {
    if !at.present() {
        return;
    }
    for (field, below) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let path = at.get(field);
        if simple_path(&path) && !path.str().starts_with(below) {
            let place = below.trim_end_matches('.');
            path.invalid(format!("should be a json path under {place}"));
        }
    }
    let selector = at.get("labelSelectorPath");
    if !selector.is_empty()
        && simple_path(&selector)
        && ![".spec.", ".status."].iter().any(|below| selector.str().starts_with(below))
    {
        selector.invalid("should be a json path under either .spec or .status");
    }
}

fn check_column(at: &At<'_>) {
    at.get("name").need();
    let kind = at.get("type");
    let types = ["boolean", "date", "integer", "number", "string"];
    if kind.need() && !types.contains(&kind.str()) {
        kind.invalid(format!("must be one of {}", types.join(",")));
    }
    let formats = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let format = at.get("format");
    if !format.is_empty() && !formats.contains(&format.str()) {
        format.invalid(format!("must be one of {}", formats.join(",")));
    }
    // Upstream's internal field has this spelling.
    simple_path(&at.get("JSONPath").holding(&at.get("jsonPath")));
}

fn check_names(at: &At<'_>) {
    let label = |place: &At<'_>, text: &str, intro: &str| {
        let errors = names::dns1035_label(text);
        if !errors.is_empty() {
            place.invalid_as(place.str(), format!("{intro}{}", errors.join(",")));
        }
    };
    let mixed = "may have mixed case, but should otherwise match: ";
    for field in ["plural", "singular"] {
        if at.get(field).need() {
            label(&at.get(field), at.get(field).str(), "");
        }
    }
    for field in ["kind", "listKind"] {
        if at.get(field).need() {
            label(&at.get(field), &at.get(field).str().to_lowercase(), mixed);
        }
    }
    for list in ["shortNames", "categories"] {
        at.get(list).items().for_each(|name| label(&name, name.str(), ""));
    }
    let (kind, list) = (at.get("kind"), at.get("listKind"));
    if !kind.is_empty() && kind.str() == list.str() {
        list.invalid("kind and listKind may not be the same");
    }
}

fn conversion(at: &At<'_>) {
    if !at.present() {
        return;
    }
    at.get("strategy").need_one_of(&["None", "Webhook"]);
    let webhook = at.get("webhook");
    let client = webhook.get("clientConfig");
    if at.is("strategy", "Webhook") {
        // Upstream's internal form has no level called `webhook`.
        let config = at.get("webhookClientConfig").holding(&client);
        if config.present() {
            rules::client(&config);
        } else {
            config.required("required when strategy is set to Webhook");
        }
        let versions = at.get("conversionReviewVersions").holding(&webhook.get("conversionReviewVersions"));
        if versions.need() && !versions.strings().iter().any(|v| matches!(*v, "v1" | "v1beta1")) {
            versions.invalid("must include at least one of v1, v1beta1");
        }
    } else {
        let why = "should not be set when strategy is not set to Webhook";
        if client.present() {
            at.get("webhookClientConfig").forbidden(why);
        }
        if !webhook.get("conversionReviewVersions").is_empty() {
            at.get("conversionReviewVersions").forbidden(why);
        }
    }
}

fn stored(definition: &At<'_>) {
    let list = definition.at("status.storedVersions");
    let path = FieldPath::new("status").child("storedVersions");
    let versions: Vec<At<'_>> = definition.at("spec.versions").items().collect();
    if list.is_empty() {
        return list.named(path).invalid_as(Value::Null, "must have at least one stored version");
    }
    let known = list.strings();
    for version in versions.iter().filter(|v| v.get("storage").bool()) {
        let name = version.get("name").str();
        if !known.contains(&name) {
            list.invalid(format!("must have the storage version {name}"));
        }
    }
    for at in list.items().filter(|at| !versions.iter().any(|v| v.is("name", at.str()))) {
        let name = at.str();
        at.invalid(format!("missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"));
    }
}
