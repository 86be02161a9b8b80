//! `apidiscovery.k8s.io/v2 APIGroupDiscoveryList`.

use copepod_api::{GroupVersionKind, ResourceDef, Scope, Subresource};
use serde_json::{Map, Value, json};

use super::{Served, Versions};

/// The media type of the answer.
pub(crate) const MEDIA_TYPE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The document of these groups and its entity tag.
pub(super) fn document(groups: &[(String, Versions)]) -> (bytes::Bytes, String) {
    let items: Vec<Value> = groups.iter().map(|(name, versions)| group(name, versions)).collect();
    let value = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    let bytes = copepod_schema::encode::document(&value);
    let tag = ring::digest::digest(&ring::digest::SHA512, &bytes);
    (bytes.into(), hex::encode_upper(tag))
}

fn group(name: &str, versions: &Versions) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|(version, served)| match served {
            Served::Here(rows) => {
                let resources: Vec<Value> = rows.iter().map(|row| resource(row)).collect();
                json!({"version": version, "resources": resources, "freshness": "Current"})
            }
            Served::Elsewhere(remote) => {
                let freshness = if remote.fresh { "Current" } else { "Stale" };
                let mut entry = json!({"version": version, "freshness": freshness});
                if remote.resources.as_array().is_some_and(|list| !list.is_empty()) {
                    entry["resources"] = remote.resources.clone();
                }
                entry
            }
        })
        .collect();
    let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn response_kind(kind: Option<&GroupVersionKind>, row: &ResourceDef) -> Value {
    match kind.filter(|k| !(k.group == row.group && k.version == row.version)) {
        Some(kind) => json!({"group": kind.group, "version": kind.version, "kind": kind.kind}),
        None => {
            let kind = kind.map_or(&row.kind, |k| &k.kind);
            // Upstream fills group and version only where they differ from the document's; custom resources always.
            let (group, version) =
                if row.custom { (row.group.as_str(), row.version.as_str()) } else { ("", "") };
            json!({"group": group, "version": version, "kind": kind})
        }
    }
}

fn resource(row: &ResourceDef) -> Value {
    let mut map = Map::new();
    map.insert("resource".to_owned(), json!(row.plural));
    if !row.verbs.0.is_empty() {
        map.insert("responseKind".to_owned(), response_kind(None, row));
    }
    let scope = if row.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" };
    map.insert("scope".to_owned(), json!(scope));
    map.insert("singularResource".to_owned(), json!(row.singular));
    map.insert("verbs".to_owned(), json!(row.verbs));
    if !row.short_names.is_empty() {
        map.insert("shortNames".to_owned(), json!(row.short_names));
    }
    if !row.categories.is_empty() {
        map.insert("categories".to_owned(), json!(row.categories));
    }
    if !row.subresources.is_empty() {
        let mut subresources: Vec<&Subresource> = row.subresources.iter().collect();
        subresources.sort_by(|a, b| a.name.cmp(&b.name));
        let list: Vec<Value> = subresources
            .into_iter()
            .map(|sub| {
                let kind = response_kind(sub.kind.as_ref(), row);
                json!({"subresource": sub.name, "responseKind": kind, "verbs": sub.verbs})
            })
            .collect();
        map.insert("subresources".to_owned(), json!(list));
    }
    Value::Object(map)
}
