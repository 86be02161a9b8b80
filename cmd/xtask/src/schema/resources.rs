//! Resource rows from the published discovery documents.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use copepod_api::{GroupVersionKind, ResourceDef, Scope, Subresource, Verbs};
use serde::Deserialize;

use super::{spec::Spec, storage};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    group_version: String,
    #[serde(default)]
    resources: Vec<Entry>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Entry {
    name: String,
    singular_name: String,
    namespaced: bool,
    group: String,
    version: String,
    kind: String,
    verbs: Verbs,
    short_names: Vec<String>,
    categories: Vec<String>,
    storage_version_hash: String,
}

/// All rows of the stable versions as JSON, one row a line.
pub(crate) fn rows(dir: &Path, spec: &Spec) -> Result<String> {
    let mut rows = BTreeMap::new();
    for entry in fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let version = stem.rsplit("__").next().unwrap_or_default();
        let stable =
            version.strip_prefix('v').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        if stable && stem.contains("__") {
            let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            let document: Document =
                serde_json::from_str(&text).with_context(|| format!("parse {}", path.display()))?;
            for row in document_rows(&document, spec)? {
                rows.insert((row.group.clone(), row.version.clone(), row.plural.clone()), row);
            }
        }
    }
    let lines: Vec<String> = rows.values().map(serde_json::to_string).collect::<Result<_, _>>()?;
    Ok(format!("[\n{}\n]\n", lines.join(",\n")))
}

fn document_rows(document: &Document, spec: &Spec) -> Result<Vec<ResourceDef>> {
    let (group, version) = document.group_version.split_once('/').unwrap_or(("", &document.group_version));
    let mut rows: Vec<ResourceDef> = Vec::new();
    // A parent is listed before its subresources.
    for entry in &document.resources {
        let Some((parent, name)) = entry.name.split_once('/') else {
            rows.push(row(group, version, entry, spec)?);
            continue;
        };
        let subresource = subresource(group, version, name, entry);
        match rows.iter_mut().find(|row| row.plural == parent) {
            Some(row) => {
                let subresource = subresource(row);
                row.subresources.push(subresource);
            }
            None => anyhow::bail!("{}: {} has no parent", document.group_version, entry.name),
        }
    }
    Ok(rows)
}

fn row(group: &str, version: &str, entry: &Entry, spec: &Spec) -> Result<ResourceDef> {
    let schema = spec
        .model_of(group, version, &entry.kind)
        .with_context(|| format!("{group}/{version} {} has no definition", entry.kind))?;
    // io.k8s.api.core.v1.Pod is the message k8s.io.api.core.v1.Pod.
    let proto = schema.replacen("io.k8s.", "k8s.io.", 1);
    Ok(ResourceDef {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: entry.kind.clone(),
        list_kind: format!("{}List", entry.kind),
        plural: entry.name.clone(),
        singular: entry.singular_name.clone(),
        short_names: entry.short_names.clone(),
        categories: entry.categories.clone(),
        scope: if entry.namespaced { Scope::Namespaced } else { Scope::Cluster },
        verbs: entry.verbs.clone(),
        subresources: Vec::new(),
        storage_version_hash: entry.storage_version_hash.clone(),
        storage_prefix: storage::prefix(group, &entry.name),
        storage_version: storage::version(group, &entry.name, version),
        schema: schema.to_owned(),
        // apiregistration has no protobuf form.
        proto: if group == "apiregistration.k8s.io" { String::new() } else { proto },
        selectable_fields: storage::selectable(group, &entry.kind),
        columns: Vec::new(),
        custom: false,
        returns_deleted: spec.returns_deleted(schema),
        // The registry's own.
        deprecation: String::new(),
    })
}

/// A subresource, whose kind is given only where it differs from its parent's.
fn subresource(
    group: &str,
    version: &str,
    name: &str,
    entry: &Entry,
) -> impl FnOnce(&ResourceDef) -> Subresource {
    let or = |own: &str, parent: &str| if own.is_empty() { parent.to_owned() } else { own.to_owned() };
    let kind = GroupVersionKind {
        group: or(&entry.group, group),
        version: or(&entry.version, version),
        kind: entry.kind.clone(),
    };
    let (name, verbs) = (name.to_owned(), entry.verbs.clone());
    move |parent| Subresource { name, kind: Some(kind).filter(|kind| *kind != parent.gvk()), verbs }
}
