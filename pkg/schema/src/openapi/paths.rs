//! Paths and operations of a resource row.

use std::collections::BTreeMap;

use copepod_api::{GroupVersionKind, ResourceDef, Verb, Verbs};
use serde_json::{Map, Value, json};

use super::{Dialect, definitions::Definitions};
use crate::builtin;

const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

const LIST: [(&str, &str); 10] = [
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const WRITE: [(&str, &str); 3] =
    [("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const DELETE: [(&str, &str); 5] = [
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

/// One operation of a path.
struct Operation<'a> {
    verb: Verb,
    kind: GroupVersionKind,
    /// The definition answered with.
    answer: &'a str,
    /// Operation id, without its verb.
    id: String,
    tag: String,
}

/// The definition of a kind: built in, or the custom resource's own.
fn model_of(gvk: &GroupVersionKind, row: &ResourceDef) -> Option<String> {
    if *gvk == row.gvk() {
        return Some(row.schema.clone());
    }
    let schema = builtin().kind(&gvk.group, &gvk.version, &gvk.kind)?;
    schema.model().map(str::to_owned)
}

fn list_model(row: &ResourceDef) -> String {
    match row.schema.rsplit_once('.') {
        Some((package, _)) => format!("{package}.{}", row.list_kind),
        None => row.list_kind.clone(),
    }
}

/// Adds the paths of a row.
pub(super) fn add(row: &ResourceDef, definitions: &mut Definitions, paths: &mut BTreeMap<String, String>) {
    let root = format!("/{}", super::path(&row.group, &row.version));
    let scope = if row.namespaced() { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{root}{scope}/{}", row.plural);
    let list = list_model(row);
    let gvk = row.gvk();
    let own = [Verb::List, Verb::Create, Verb::DeleteCollection];
    operations(&collection, row, (&row.verbs, &own), (&gvk, &row.schema, &list, ""), definitions, paths);
    if row.namespaced() && row.verbs.has(Verb::List) {
        let everywhere = format!("{root}/{}", row.plural);
        let listing = Verbs(vec![Verb::List]);
        let own = [Verb::List];
        operations(
            &everywhere,
            row,
            (&listing, &own),
            (&gvk, &row.schema, &list, "ForAllNamespaces"),
            definitions,
            paths,
        );
    }
    let single = [Verb::Get, Verb::Update, Verb::Patch, Verb::Delete];
    let item = format!("{collection}/{{name}}");
    operations(&item, row, (&row.verbs, &single), (&gvk, &row.schema, &list, ""), definitions, paths);
    for subresource in &row.subresources {
        let kind = subresource.kind.clone().unwrap_or_else(|| row.gvk());
        let Some(model) = model_of(&kind, row) else { continue };
        let verbs = [Verb::Get, Verb::Update, Verb::Patch, Verb::Create];
        let path = format!("{item}/{}", subresource.name);
        let suffix = capitalized(&subresource.name);
        operations(
            &path,
            row,
            (&subresource.verbs, &verbs),
            (&kind, &model, &list, &suffix),
            definitions,
            paths,
        );
    }
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// `AppsV1`, `CoreV1`, `RbacAuthorizationV1`: the group's first labels and the version.
fn group_id(row: &ResourceDef) -> String {
    let group = if row.group.is_empty() { "core" } else { row.group.trim_end_matches(".k8s.io") };
    let words = group.split(['.', '-']).chain([row.version.as_str()]);
    words.map(capitalized).collect()
}

fn operations(
    path: &str,
    row: &ResourceDef,
    (served, here): (&Verbs, &[Verb]),
    (kind, model, list, suffix): (&GroupVersionKind, &str, &str, &str),
    definitions: &mut Definitions,
    paths: &mut BTreeMap<String, String>,
) {
    let mut item = Map::new();
    let scoped = if path.contains("{namespace}") { "Namespaced" } else { "" };
    for verb in here.iter().copied().filter(|verb| served.has(*verb)) {
        let answer = match verb {
            Verb::List => list,
            Verb::DeleteCollection | Verb::Delete => STATUS,
            _ => model,
        };
        let operation = Operation {
            verb,
            kind: kind.clone(),
            answer,
            id: format!("{}{scoped}{}{suffix}", group_id(row), row.kind),
            tag: format!("{}_{}", if row.group.is_empty() { "core" } else { tag(&row.group) }, row.version),
        };
        let (method, body) = render(&operation, model, definitions);
        item.insert(method.to_owned(), body);
    }
    if item.is_empty() {
        return;
    }
    let mut parameters = Vec::new();
    for name in ["name", "namespace"] {
        if path.contains(&format!("{{{name}}}")) {
            parameters.push(parameter(definitions.dialect, "path", name, "string"));
        }
    }
    parameters.push(parameter(definitions.dialect, "query", "pretty", "string"));
    item.insert("parameters".to_owned(), Value::Array(parameters));
    paths.insert(path.to_owned(), Value::Object(item).to_string());
}

fn tag(group: &str) -> &str {
    group.split('.').next().unwrap_or(group)
}

fn parameter(dialect: Dialect, place: &str, name: &str, type_: &str) -> Value {
    let mut out = match dialect {
        Dialect::V2 => json!({"in": place, "name": name, "type": type_, "uniqueItems": true}),
        Dialect::V3 => json!({"in": place, "name": name, "schema": {"type": type_, "uniqueItems": true}}),
    };
    if let (Value::Object(map), "path") = (&mut out, place) {
        map.insert("required".to_owned(), true.into());
    }
    out
}

/// Method, action, first part of the operation id, query parameters.
type Plan = (&'static str, &'static str, &'static str, Vec<(&'static str, &'static str)>);

fn plan(verb: Verb) -> Plan {
    match verb {
        Verb::Create => ("post", "post", "create", WRITE.to_vec()),
        Verb::Update => ("put", "put", "replace", WRITE.to_vec()),
        Verb::Patch => {
            ("patch", "patch", "patch", WRITE.iter().copied().chain([("force", "boolean")]).collect())
        }
        Verb::Get | Verb::Watch => ("get", "get", "read", Vec::new()),
        Verb::List => ("get", "list", "list", LIST.to_vec()),
        Verb::Delete => ("delete", "delete", "delete", DELETE.to_vec()),
        Verb::DeleteCollection => {
            let list = LIST.iter().filter(|(name, _)| !matches!(*name, "allowWatchBookmarks" | "watch"));
            ("delete", "deletecollection", "deleteCollection", list.chain(&DELETE).copied().collect())
        }
    }
}

fn render(operation: &Operation<'_>, model: &str, definitions: &mut Definitions) -> (&'static str, Value) {
    let dialect = definitions.dialect;
    let (method, action, verb, query) = plan(operation.verb);
    let mut parameters: Vec<Value> =
        query.iter().map(|(name, type_)| parameter(dialect, "query", name, type_)).collect();
    let body = match operation.verb {
        Verb::Create | Verb::Update => Some((definitions.reference(model), true)),
        Verb::Patch => Some((definitions.reference(PATCH), true)),
        Verb::Delete | Verb::DeleteCollection => Some((definitions.reference(DELETE_OPTIONS), false)),
        _ => None,
    };
    let answer = definitions.reference(operation.answer);
    let GroupVersionKind { group, version, kind } = &operation.kind;
    let mut out = Map::new();
    out.insert("operationId".to_owned(), format!("{verb}{}", operation.id).into());
    out.insert("tags".to_owned(), json!([operation.tag]));
    out.insert("x-kubernetes-action".to_owned(), action.into());
    out.insert(
        "x-kubernetes-group-version-kind".to_owned(),
        json!({"group": group, "version": version, "kind": kind}),
    );
    match (dialect, body) {
        (Dialect::V2, Some((schema, required))) => {
            let mut body = json!({"in": "body", "name": "body", "schema": schema});
            if let (Value::Object(map), true) = (&mut body, required) {
                map.insert("required".to_owned(), true.into());
            }
            parameters.insert(0, body);
        }
        (Dialect::V3, Some((schema, required))) => {
            let types: Map<String, Value> = media_types(operation.verb, &schema);
            let mut body = json!({"content": types});
            if let (Value::Object(map), true) = (&mut body, required) {
                map.insert("required".to_owned(), true.into());
            }
            out.insert("requestBody".to_owned(), body);
        }
        _ => {}
    }
    if !parameters.is_empty() {
        out.insert("parameters".to_owned(), Value::Array(parameters));
    }
    out.insert("responses".to_owned(), responses(dialect, operation.verb, &answer));
    (method, Value::Object(out))
}

fn media_types(verb: Verb, schema: &Value) -> Map<String, Value> {
    let types: &[&str] = match verb {
        Verb::Patch => &[
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ],
        _ => &["*/*"],
    };
    types.iter().map(|type_| ((*type_).to_owned(), json!({"schema": schema}))).collect()
}

fn responses(dialect: Dialect, verb: Verb, answer: &Value) -> Value {
    let codes: &[(&str, &str)] = match verb {
        Verb::Create => &[("200", "OK"), ("201", "Created"), ("202", "Accepted")],
        Verb::Update | Verb::Patch => &[("200", "OK"), ("201", "Created")],
        Verb::Delete => &[("200", "OK"), ("202", "Accepted")],
        _ => &[("200", "OK")],
    };
    let mut out = Map::new();
    for (code, text) in codes {
        let body = match dialect {
            Dialect::V2 => json!({"description": text, "schema": answer}),
            Dialect::V3 => json!({"description": text, "content": {"application/json": {"schema": answer}}}),
        };
        out.insert((*code).to_owned(), body);
    }
    out.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    Value::Object(out)
}
