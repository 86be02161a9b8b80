//! Paths of a resource row.

use std::collections::BTreeMap;

use copepod_api::{GroupVersionKind, ResourceDef, Verb, Verbs};
use serde_json::{Map, Value};

use super::{
    definitions::Definitions,
    operation::{Action, Operation, STATUS, WATCH_EVENT},
    parameters,
};
use crate::builtin;

const RESOURCES: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList";

/// The methods of proxied requests.
const PROXIED: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

/// The definition of a kind: built in, or the custom resource's own.
fn model_of(gvk: &GroupVersionKind, row: &ResourceDef) -> Option<String> {
    if *gvk == row.gvk() {
        return Some(row.schema.clone());
    }
    let schema = builtin().kind(&gvk.group, &gvk.version, &gvk.kind)?;
    schema.model().map(str::to_owned)
}

/// The definition of a row's lists.
pub(super) fn list_model(row: &ResourceDef) -> String {
    match row.schema.rsplit_once('.') {
        Some((package, _)) => format!("{package}.{}", row.list_kind),
        None => row.list_kind.clone(),
    }
}

/// What the paths of a row have in common.
struct Row<'a> {
    row: &'a ResourceDef,
    gvk: GroupVersionKind,
    list: String,
    /// `CoreV1` and `core_v1`.
    group: String,
    tag: String,
}

/// Where the paths go.
struct Out<'a> {
    definitions: &'a mut Definitions,
    paths: &'a mut BTreeMap<String, String>,
}

impl Out<'_> {
    /// Adds a path, unless nothing is served there.
    fn add(&mut self, path: &str, mut operations: Vec<Operation<'_>>) {
        if operations.is_empty() {
            return;
        }
        let mut own: Vec<&mut Vec<_>> = operations.iter_mut().map(|one| &mut one.parameters).collect();
        let common: Vec<Value> =
            parameters::common(&mut own).iter().map(|one| one.render(self.definitions.dialect)).collect();
        let mut item = Map::new();
        for operation in &operations {
            item.insert(operation.action.method().to_owned(), operation.render(self.definitions));
        }
        if !common.is_empty() {
            item.insert("parameters".to_owned(), Value::Array(common));
        }
        self.paths.insert(path.to_owned(), Value::Object(item).to_string());
    }
}

/// Adds the paths of a row.
pub(super) fn add(row: &ResourceDef, definitions: &mut Definitions, paths: &mut BTreeMap<String, String>) {
    let (group, tag) = names(row);
    let all = Row { row, gvk: row.gvk(), list: list_model(row), group, tag };
    let mut out = Out { definitions, paths };
    let root = format!("/{}", super::path(&row.group, &row.version));
    let scoped = |root: &str| {
        let scope = if row.namespaced() { "/namespaces/{namespace}" } else { "" };
        format!("{root}{scope}/{}", row.plural)
    };
    all.discovery(&root, &mut out);
    all.objects(&scoped(&root), &root, &mut out);
    let watched = format!("{root}/watch");
    if row.verbs.has(Verb::Watch) && !row.custom {
        all.watches(&scoped(&watched), &watched, &mut out);
    }
    all.subresources(&format!("{}/{{name}}", scoped(&root)), &mut out);
}

/// `CoreV1` and `core_v1`, `RbacAuthorizationV1` and `rbacAuthorization_v1`.
fn names(row: &ResourceDef) -> (String, String) {
    let group = if row.group.is_empty() { "core" } else { row.group.trim_end_matches(".k8s.io") };
    let group: String = group.split(['.', '-']).map(capitalized).collect();
    let mut chars = group.chars();
    let tag: String =
        chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default();
    (format!("{group}{}", capitalized(&row.version)), format!("{tag}_{}", row.version))
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// An operation of a path, if its verb is served: verb, action, definition answered with, id.
type Wanted<'a> = (Verb, Action, &'a str, String);

impl Row<'_> {
    /// Of a group version, once.
    fn discovery(&self, root: &str, out: &mut Out<'_>) {
        let path = format!("{root}/");
        if !self.row.custom && !out.paths.contains_key(&path) {
            let object = (&self.gvk, RESOURCES);
            out.add(
                &path,
                vec![self.operation(Action::Discover, object, Some(RESOURCES), "", String::new())],
            );
        }
    }

    fn scoped(&self) -> String {
        let scope = if self.row.namespaced() { "Namespaced" } else { "" };
        format!("{scope}{}", self.row.kind)
    }

    fn objects(&self, collection: &str, root: &str, out: &mut Out<'_>) {
        let (id, model) = (self.scoped(), self.row.schema.as_str());
        let object = (&self.gvk, model);
        let deleted = if self.row.returns_deleted { model } else { STATUS };
        let many = [
            (Verb::List, Action::List, self.list.as_str(), id.clone()),
            (Verb::Create, Action::Create, model, id.clone()),
            (Verb::DeleteCollection, Action::DeleteCollection, STATUS, format!("Collection{id}")),
        ];
        out.add(collection, self.served(collection, &self.row.verbs, object, "", many));
        if self.row.namespaced() {
            let everywhere = format!("{root}/{}", self.row.plural);
            let id = format!("{}ForAllNamespaces", self.row.kind);
            let list = [(Verb::List, Action::List, self.list.as_str(), id)];
            out.add(&everywhere, self.served(&everywhere, &self.row.verbs, object, "", list));
        }
        let one = [
            (Verb::Get, Action::Read, model, id.clone()),
            (Verb::Update, Action::Replace, model, id.clone()),
            (Verb::Delete, Action::Delete, deleted, id.clone()),
            (Verb::Patch, Action::Patch, model, id),
        ];
        let item = format!("{collection}/{{name}}");
        out.add(&item, self.served(&item, &self.row.verbs, object, "", one));
    }

    /// The old way to watch.
    fn watches(&self, collection: &str, root: &str, out: &mut Out<'_>) {
        let (kind, id) = (&self.row.kind, self.scoped());
        let mut paths = vec![
            (collection.to_owned(), Action::WatchList, format!("{id}List")),
            (format!("{collection}/{{name}}"), Action::Watch, id),
        ];
        if self.row.namespaced() {
            let id = format!("{kind}ListForAllNamespaces");
            paths.push((format!("{root}/{}", self.row.plural), Action::WatchList, id));
        }
        for (path, action, id) in paths {
            let wanted = [(Verb::Watch, action, WATCH_EVENT, id)];
            let object = (&self.gvk, self.row.schema.as_str());
            out.add(&path, self.served(&path, &self.row.verbs, object, "", wanted));
        }
    }

    fn subresources(&self, item: &str, out: &mut Out<'_>) {
        for subresource in &self.row.subresources {
            let path = format!("{item}/{}", subresource.name);
            let kind = subresource.kind.clone().unwrap_or_else(|| self.gvk.clone());
            if kind.kind.ends_with("Options") {
                self.connections(&path, &subresource.verbs, &kind, &subresource.name, out);
                continue;
            }
            let Some(model) = model_of(&kind, self.row) else { continue };
            // Upstream names a custom resource's scale by the resource.
            let kind = if self.row.custom { self.gvk.clone() } else { kind };
            let id = format!("{}{}", self.scoped(), capitalized(&subresource.name));
            let wanted = [
                (Verb::Get, Action::Read),
                (Verb::Update, Action::Replace),
                (Verb::Patch, Action::Patch),
                (Verb::Create, Action::Create),
            ]
            .map(|(verb, action)| (verb, action, model.as_str(), id.clone()));
            let object = (&kind, model.as_str());
            let operations = self.served(&path, &subresource.verbs, object, &subresource.name, wanted);
            out.add(&path, operations);
        }
    }

    fn connections(&self, path: &str, verbs: &Verbs, kind: &GroupVersionKind, name: &str, out: &mut Out<'_>) {
        let proxy = verbs.has(Verb::Delete);
        let methods = if proxy { &PROXIED[..] } else { &["get", "post"] };
        let paths: &[(&str, &str)] = if proxy { &[("", ""), ("/{path}", "WithPath")] } else { &[("", "")] };
        for (suffix, named) in paths {
            let path = format!("{path}{suffix}");
            let operation = |method: &&'static str| {
                let id = format!("{}{}{}{named}", capitalized(method), self.scoped(), capitalized(name));
                let one = self.operation(Action::Connect(method), (kind, ""), None, name, id);
                one.with_parameters(&path)
            };
            out.add(&path, methods.iter().map(operation).collect());
        }
    }

    fn operation<'b>(
        &'b self,
        action: Action,
        (kind, model): (&'b GroupVersionKind, &'b str),
        answer: Option<&'b str>,
        subresource: &'b str,
        id: String,
    ) -> Operation<'b> {
        Operation {
            action,
            custom: self.row.custom,
            kind,
            noun: &self.row.kind,
            subresource,
            model,
            answer,
            watched: self.row.verbs.has(Verb::Watch),
            group: &self.group,
            tag: &self.tag,
            id,
            parameters: Vec::new(),
        }
    }

    /// Those of a path's operations that are served.
    fn served<'b>(
        &'b self,
        path: &str,
        served: &Verbs,
        object: (&'b GroupVersionKind, &'b str),
        subresource: &'b str,
        wanted: impl IntoIterator<Item = Wanted<'b>>,
    ) -> Vec<Operation<'b>> {
        let wanted = wanted.into_iter().filter(|(verb, ..)| served.has(*verb));
        wanted
            .map(|(_, action, answer, id)| {
                // A log is text.
                let answer = Some(answer).filter(|_| subresource != "log");
                self.operation(action, object, answer, subresource, id).with_parameters(path)
            })
            .collect()
    }
}
